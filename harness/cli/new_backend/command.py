"""Renders the templates of the repository; checks names before it writes."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from jinja2 import Environment

_PACKAGE, _SUFFIX = "package", ".j2"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@click.command("new-backend")
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write to this folder, which must be empty.  [default: conform-NAME]",
)
def new_backend(name: str, into: Path | None) -> None:
    """Create a repository for your own backend NAME: entry point, recipes, known issues, cases,
    gate and workflow.

    It runs unchanged, with XNNPACK as the delegate; then replace XNNPACK by your delegate.
    """
    from harness.model import registry

    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise click.BadParameter(
            f"{name!r} is not a valid backend name; use lower case letters, digits and _",
            param_hint="NAME",
        )
    if name in registry.names():
        raise click.BadParameter(f"backend {name!r} exists already", param_hint="NAME")
    into = into or Path(f"conform-{name.replace('_', '-')}")
    if into.exists() and any(into.iterdir()):
        raise click.UsageError(f"{into} is not empty; choose another folder with --into")
    for path, text in render_templates(name).items():
        (into / path).parent.mkdir(parents=True, exist_ok=True)
        (into / path).write_text(text, encoding="utf-8")
        click.echo(into / path)
    click.echo(
        f'\nnext:  cd {into} && pip install . && conform run conform_{name} --targets "{name}:*"'
    )


def render_templates(name: str) -> dict[str, str]:
    """Render all files of the repository, by path, in reading order."""
    templates = _make_environment()
    package = f"conform_{name}"
    words = {"name": name, "dashed": name.replace("_", "-"), "package": package}
    found = {
        template.removesuffix(_SUFFIX): templates.get_template(template).render(words)
        for template in templates.list_templates()
    }
    return {
        re.sub(f"^{_PACKAGE}/", f"{package}/", path): found[path]
        for path in sorted(found, key=_get_reading_order)
    }


_ORDER = (
    "README.md",
    "pyproject.toml",
    "conftest.py",
    "__init__.py",
    "backend.py",
    "gaps.py",
    "cases.py",
)


def _get_reading_order(path: str) -> tuple[int, str]:
    name = path.rpartition("/")[2]
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), path)


def _make_environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(__package__),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
