"""The one Jinja2 environment: autoescape on, undefined names an error, our filters."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING

from reports import text
from reports.render import views

if TYPE_CHECKING:
    from jinja2 import BytecodeCache, Environment


@functools.cache
def environment() -> Environment:
    """Templates of ``reports/templates`` with the filters that spell values."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("reports"),
        bytecode_cache=_kept(),
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


def _kept() -> BytecodeCache | None:
    """Compiled templates in the user's cache folder: a quarter of a second for each run's page."""
    from jinja2 import FileSystemBytecodeCache
    from jinja2.bccache import Bucket

    from harness.cache_folders import cache_folder

    class Kept(FileSystemBytecodeCache):
        def dump_bytecode(self, bucket: Bucket) -> None:
            with contextlib.suppress(OSError):  # a full disk, or one that is not ours
                super().dump_bytecode(bucket)

    folder = cache_folder("templates")
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        return Kept(str(folder))
    return None


@functools.cache
def sources(*names: str) -> str:
    """Our own style sheets or scripts, one after the other, as they are: no text of a record."""
    from markupsafe import Markup

    loader = environment().loader
    assert loader is not None
    return Markup("\n").join(Markup(loader.get_source(environment(), name)[0]) for name in names)
