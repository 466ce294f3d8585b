"""What a module's text says that it imports, wherever in it the import stands. Nothing is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# "# imports only: executorch" behind a dynamic import says which packages it can reach.
_DECLARED = re.compile(r"#\s*imports only:\s*([\w., ]+)")
# What imports by a name, or a file, that is known when it runs.
_BY_NAME = frozenset({"import_module", "__import__"})
_LOADERS = _BY_NAME | {"spec_from_file_location", "SourceFileLoader", "SourcelessFileLoader"}
_WHOLE_MODULES = frozenset({"runpy", "pkgutil"})
# A package whose names are attached when they are asked for has them all.
_ATTACHING = "lazy_loader"


@dataclass(frozen=True)
class WantedImport:
    """One import.

    Attributes:
        module: dotted name; empty for ``from . import name``.
        names: those behind ``from ... import``; empty for a plain import.
        level: dots in front, as in :class:`ast.ImportFrom`.
    """

    module: str
    names: tuple[str, ...] = ()
    level: int = 0


@dataclass(frozen=True)
class ModuleImports:
    """What a file imports.

    Attributes:
        wanted: what it names.
        dynamic: it imports something whose name its text does not have.
        attaching: names of its package are looked up when they are asked for.
        plugins: what ``pytest_plugins`` of a conftest.py names.
    """

    wanted: tuple[WantedImport, ...] = ()
    dynamic: bool = False
    attaching: bool = False
    plugins: tuple[str, ...] = ()


def read_imports(path: Path) -> ModuleImports:
    """What a Python file imports; one that does not parse imports nothing, and fails as a suite."""
    content = path.read_bytes()
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return ModuleImports()
    lines = content.decode("utf-8", "replace").splitlines()
    wanted: list[WantedImport] = []
    dynamic = False
    spelled: set[ast.expr] = set()
    for node in ast.walk(tree):  # what is called comes after its call
        if isinstance(node, ast.Import):
            wanted += [WantedImport(each.name) for each in node.names]
            dynamic |= any(each.asname and each.name in _WHOLE_MODULES for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            wanted.append(WantedImport(node.module or "", _names(node), node.level))
            dynamic |= _hides_a_loader(node)
        elif isinstance(node, ast.Call) and (literal := _literal(node)):
            wanted.append(WantedImport(literal))
            spelled.add(node.func)
        elif isinstance(node, ast.Name | ast.Attribute) and node not in spelled and _loads(node):
            dynamic |= not _is_declared(node, lines, wanted)
    roots = {each.module.partition(".")[0] for each in wanted if not each.level}
    return ModuleImports(
        tuple(dict.fromkeys(wanted)), dynamic, _ATTACHING in roots, tuple(_plugins(tree))
    )


def _names(node: ast.ImportFrom) -> tuple[str, ...]:
    return tuple(each.name for each in node.names)


def _hides_a_loader(node: ast.ImportFrom) -> bool:
    """Whether a loader gets a name here that :func:`_loads` does not know."""
    if node.module in _WHOLE_MODULES and not node.level:
        return True
    return any(
        each.name in _LOADERS and each.asname not in (None, each.name) for each in node.names
    )


def _loads(node: ast.Name | ast.Attribute) -> bool:
    """Whether it is what imports by a name or a file."""
    if isinstance(node, ast.Name):
        return node.id in _LOADERS
    of_whole = isinstance(node.value, ast.Name) and node.value.id in _WHOLE_MODULES
    return of_whole or node.attr in _LOADERS


def _literal(call: ast.Call) -> str:
    """The whole name that a loader is given as text; a relative one hangs on another argument."""
    function = call.func
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    first = call.args[0] if call.args and name in _BY_NAME else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        return "" if first.value.startswith(".") else first.value
    return ""


def _is_declared(node: ast.expr, lines: list[str], wanted: list[WantedImport]) -> bool:
    """Whether the line says what is imported, which is then among what is wanted."""
    for line in lines[node.lineno - 1 : node.end_lineno]:
        if found := _DECLARED.search(line):
            wanted += [
                WantedImport(name) for name in re.split(r"[,\s]+", found[1].strip(" .")) if name
            ]
            return True
    return False


def _plugins(tree: ast.Module) -> Iterator[str]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "pytest_plugins"
            for target in statement.targets
        ):
            for node in ast.walk(statement.value):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
