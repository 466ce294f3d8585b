"""Write the repository from its templates; names are checked before anything is written."""

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
    help="Where to write it; default: conform-NAME here. It must not have files yet.",
)
def new_backend(name: str, into: Path | None) -> None:
    """Write a repository for a backend of your own, NAME: entry point, recipes, known gaps, cases,
    gate and workflow.

    All of it runs as it is written, with XNNPACK in place of your delegate; then make it yours.
    """
    from harness.model import registry

    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise click.BadParameter(
            f"{name!r} cannot stand before the colon of a target; lower case letters, digits and _",
            param_hint="NAME",
        )
    if name in registry.names():
        raise click.BadParameter(f"there is a backend {name!r} already", param_hint="NAME")
    into = into or Path(f"conform-{name.replace('_', '-')}")
    if into.exists() and any(into.iterdir()):
        raise click.UsageError(f"{into} has files already; --into names another folder")
    for path, text in rendered(name).items():
        (into / path).parent.mkdir(parents=True, exist_ok=True)
        (into / path).write_text(text, encoding="utf-8")
        click.echo(into / path)
    click.echo(
        f'\nnext:  cd {into} && pip install . && conform run conform_{name} --targets "{name}:*"'
    )


def rendered(name: str) -> dict[str, str]:
    """The files of the repository by path, in the order in which one reads them."""
    templates = _environment()
    package = f"conform_{name}"
    words = {"name": name, "dashed": name.replace("_", "-"), "package": package}
    found = {
        template.removesuffix(_SUFFIX): templates.get_template(template).render(words)
        for template in templates.list_templates()
    }
    return {
        re.sub(f"^{_PACKAGE}/", f"{package}/", path): found[path]
        for path in sorted(found, key=_rank)
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


def _rank(path: str) -> tuple[int, str]:
    name = path.rpartition("/")[2]
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), path)


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(__package__),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
