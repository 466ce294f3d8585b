"""Find definitions in source files and write them as comparable text.

A definition is cut out of its file by indentation and parsed alone: parsing whole files, or
``inspect``, takes several times as long.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
"""Syntax nodes of functions."""

_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)


class SourceBlock(NamedTuple):
    """A definition in a file.

    Attributes:
        node: its syntax tree.
        offset: add it to a line of the tree to get the line of the file.
    """

    node: ast.stmt
    offset: int

    def first_line(self, node: Any) -> int:
        """Return the first line of a definition in the file, including decorators."""
        return int(min(each.lineno for each in (node, *node.decorator_list))) + self.offset


@functools.lru_cache(32)
def _lines(path: str) -> list[str]:
    with open(path, encoding="utf-8") as file:
        return file.readlines()


def parse_definition(path: str, start: int) -> SourceBlock:
    """Parse the definition that begins at a line.

    Args:
        path: path of a Python file.
        start: index of its first line, which may be a decorator.
    """
    lines = _lines(path)
    indent = _indent(lines[start])
    head = "if 1:\n" if indent else ""
    for end in range(start + 1, len(lines) + 1):
        if end < len(lines) and _is_inside(lines[end], indent):
            continue
        try:
            node: Any = ast.parse(head + "".join(lines[start:end])).body[0]
        except SyntaxError:  # a decorator alone, or the end is within a string
            continue
        node = node.body[0] if head else node
        if isinstance(node, _DEFINITIONS):
            return SourceBlock(node, start - bool(head))
        break
    raise OSError(f"no definition begins at line {start + 1} of {path}")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _is_inside(line: str, indent: int) -> bool:
    code = line.lstrip()
    return not code or code[0] in "#)]}" or _indent(line) > indent


def find_definition(path: str, parts: list[str]) -> SourceBlock:
    """Find a definition by its qualified name."""
    lines, (outer, *inner) = _lines(path), parts
    pattern = re.compile(rf"[ \t]*(?:async +)?(?:def|class) +{re.escape(outer)}\b")
    found = [at for at, line in enumerate(lines) if outer in line and pattern.match(line)]
    if not found:
        raise AttributeError(f"{Path(path).name} has no {outer}")
    start = min(found, key=lambda at: _indent(lines[at]))  # the others are nested
    block = parse_definition(path, _first_decorator(lines, start))
    for part in inner:
        body = walk_statements(getattr(block.node, "body", []))
        named = (each for each in body if isinstance(each, _DEFINITIONS) and each.name == part)
        node = next(named, None)
        if node is None:
            raise AttributeError(f"{Path(path).name} has no {'.'.join(parts)}")
        block = block._replace(node=node)
    return block


def _first_decorator(lines: list[str], start: int) -> int:
    """Return the line of a definition's first decorator, or its own line."""
    indent, first = _indent(lines[start]), start
    at = start - 1
    while at >= 0 and _indent(lines[at]) >= indent and lines[at].strip():
        code = lines[at].lstrip()
        if _indent(lines[at]) == indent:
            if code[0] not in "@#)":
                break
            first = at if code[0] == "@" else first
        at -= 1
    return first


def find_file(module: str) -> str:
    """Find the file of a module without importing it or its package."""
    package, *rest = module.split(".")
    spec = find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder, *rest)
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return str(file)
    raise ModuleNotFoundError(f"No module named {module!r}", name=module)


def read_definition(path: str, parts: list[str]) -> list[str]:
    """Write a definition as its file has it."""
    if not parts:
        return [write_code(parse_file(path))]
    try:
        return [write_code(find_definition(path, parts).node)]
    except AttributeError:
        return [write_code(each) for each in find_assignments(path, ".".join(parts))]


def parse_file(path: str) -> ast.Module:
    """Parse a file."""
    return ast.parse("".join(_lines(path)))


def find_assignments(path: str, name: str) -> list[ast.stmt]:
    """Find the statements of a file that assign a variable or its items.

    Raises:
        AttributeError: there is no such statement.
    """
    found = [each for each in parse_file(path).body if name in _assigned(each)]
    if not found:
        raise AttributeError(f"{Path(path).name} has no {name}")
    return found


def _assigned(statement: ast.stmt) -> set[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    bases = (each.value if isinstance(each, ast.Subscript) else each for each in targets)
    return {base.id for base in bases if isinstance(base, ast.Name)}


def walk_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, including those in conditions, ``try`` and ``with``."""
    for each in body:
        yield each
        if isinstance(each, ast.If | ast.Try | ast.With):
            inside = [one for one in ast.iter_child_nodes(each) if isinstance(one, ast.stmt)]
            yield from walk_statements(inside)


def write_code(tree: Any) -> str:
    """Write a syntax tree as text that is the same in every Python version, without docstrings.

    Versions differ in fields that are empty unless code uses them.
    """
    parts: list[str] = []
    _write(tree, parts.append)
    return "".join(parts)


def _write(node: Any, write: Callable[[str], None]) -> None:
    if type(node) is list:
        write("[")
        for each in node:
            _write(each, write)
            write(",")
        write("]")
    elif isinstance(node, ast.AST):
        kind: Any = type(node)
        write(f"{kind.__name__}(")
        for name in _fields(kind):
            value = getattr(node, name, None)
            if value is None or value == []:
                continue
            if name == "body" and isinstance(node, (*_DEFINITIONS, ast.Module)):
                value = _without_docstring(value)
            write(f"{name}=")
            _write(value, write)
        write(")")
    else:
        write(repr(node))


@functools.cache
def _fields(kind: Any) -> tuple[str, ...]:
    # The position of a name implies its context.
    return tuple(name for name in kind._fields if name != "ctx")


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    has_value = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    if has_value and isinstance(first.value.value, str):  # type: ignore[attr-defined]
        return body[1:] or [ast.Pass()]
    return body
