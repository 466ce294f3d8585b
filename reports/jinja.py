"""The Jinja2 environment of all pages: autoescape on, undefined names are errors, our filters."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reports import text
from reports.render import views

if TYPE_CHECKING:
    from jinja2 import BytecodeCache, Environment


@functools.cache
def environment() -> Environment:
    """The environment with the templates of ``reports/templates`` and our filters."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("reports"),
        bytecode_cache=_bytecode_cache(),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.policies["json.dumps_kwargs"] = {
        "separators": (",", ":"),
        "ensure_ascii": False,
        "allow_nan": False,
    }
    for function in (text.count, text.seconds, text.memory, text.percent, text.calls, text.line,
                     text.by_count):  # fmt: skip
        made.filters[function.__name__] = function
    made.filters["segments"] = views.segments
    made.filters["safe_link"] = views.safe_link
    return made


def _bytecode_cache() -> BytecodeCache | None:
    """Compiled templates in the user's cache folder; saves 0.25 s for each page."""
    from jinja2 import FileSystemBytecodeCache
    from jinja2.bccache import Bucket

    from harness.cache_folders import cache_folder

    class TemplateCache(FileSystemBytecodeCache):
        def dump_bytecode(self, bucket: Bucket) -> None:
            with contextlib.suppress(OSError):  # the disk is full or not writable
                super().dump_bytecode(bucket)

    folder = cache_folder("templates")
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        return TemplateCache(str(folder))
    return None


def render(template: str, sheets: Sequence[str], **values: Any) -> str:
    """Render a page without scripts.

    Args:
        template: name of the template, which reads ``css``.
        sheets: names of its style sheets.
        values: what else it reads.
    """
    return environment().get_template(template).render(css=sources(*sheets), **values)


@functools.cache
def sources(*names: str) -> str:
    """Our own style sheets or scripts, joined and not escaped; they contain no text of records."""
    from markupsafe import Markup

    loader = environment().loader
    assert loader is not None
    return Markup("\n").join(Markup(loader.get_source(environment(), name)[0]) for name in names)
