"""Find the imports in a module's text, wherever they stand. Nothing is executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# "# imports only: executorch" behind a dynamic import says which packages it can reach.
_DECLARED = re.compile(r"#\s*imports only:\s*([\w., ]+)")
# Functions that import by a name, or from a file, computed at run time.
_BY_NAME = frozenset({"import_module", "__import__"})
_LOADERS = _BY_NAME | {"spec_from_file_location", "SourceFileLoader", "SourcelessFileLoader"}
_WHOLE_MODULES = frozenset({"runpy", "pkgutil"})
# A package that attaches its names lazily may import any of them.
_ATTACHING = "lazy_loader"


@dataclass(frozen=True)
class WantedImport:
    """One import.

    Attributes:
        module: dotted name; empty for ``from . import name``.
        names: the names after ``from ... import``; empty for a plain import.
        level: leading dots, as in :class:`ast.ImportFrom`.
    """

    module: str
    names: tuple[str, ...] = ()
    level: int = 0


@dataclass(frozen=True)
class ModuleImports:
    """The imports of a file.

    Attributes:
        wanted: the imports that the text names.
        dynamic: whether it imports something that the text does not name.
        attaching: whether its package looks up names on first use.
        plugins: the modules in ``pytest_plugins`` of a conftest.py.
    """

    wanted: tuple[WantedImport, ...] = ()
    dynamic: bool = False
    attaching: bool = False
    plugins: tuple[str, ...] = ()


def read_imports(path: Path) -> ModuleImports:
    """Return the imports of a Python file; none if it does not parse, as it then fails as a
    suite."""
    content = path.read_bytes()
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return ModuleImports()
    lines = content.decode("utf-8", "replace").splitlines()
    wanted: list[WantedImport] = []
    dynamic = False
    spelled: set[ast.expr] = set()
    for node in ast.walk(tree):  # a called name comes after its call
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
    """Return whether a loader is passed on or aliased here in a way that :func:`_loads` does not
    see."""
    if node.module in _WHOLE_MODULES and not node.level:
        return True
    return any(
        each.name in _LOADERS and each.asname not in (None, each.name) for each in node.names
    )


def _loads(node: ast.Name | ast.Attribute) -> bool:
    """Return whether an expression is a function that imports by a name or from a file."""
    if isinstance(node, ast.Name):
        return node.id in _LOADERS
    of_whole = isinstance(node.value, ast.Name) and node.value.id in _WHOLE_MODULES
    return of_whole or node.attr in _LOADERS


def _literal(call: ast.Call) -> str:
    """Return the absolute name that a loader gets as a literal; a relative name needs another
    argument."""
    function = call.func
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    first = call.args[0] if call.args and name in _BY_NAME else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        return "" if first.value.startswith(".") else first.value
    return ""


def _is_declared(node: ast.expr, lines: list[str], wanted: list[WantedImport]) -> bool:
    """Return whether the line names its imports in a comment; they are then part of ``wanted``."""
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
