"""Digests of the code of functions, classes, variables and modules as they are in this process.

A digest covers the source of a definition without comments and docstrings. A class or a module
counts with everything in it, and with what differs from its file in this process: a method that
somebody replaced, added or deleted, or a constant with another value. Attributes that this project
has replaced count with their original value, so that digests are the same before and after.

A module that is not imported is read from its file: nobody has altered it yet, and an import takes
long or is what a part puts off. A definition is cut out of its file by indentation and parsed alone: to parse the files whole, or
to have ``inspect`` find the end by tokens, takes several times as long.
"""

from __future__ import annotations

import ast
import enum
import functools
import hashlib
import inspect
import re
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from harness.private import replacing

_STANDARD = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)


def digest(name: str) -> str:
    """The digest of a definition.

    Args:
        name: ``module:qualified.name`` of a function, a class or a variable, or ``module``.

    Raises:
        ImportError: there is no such module.
        AttributeError: it has no such definition.
        OSError: its source is not there.
    """
    module, _, qualified = name.partition(":")
    parts = qualified.split(".") if qualified else []
    found: Any = sys.modules.get(module)
    if getattr(found, "__file__", None) is None:
        return _hash(_read(_find_file(module), parts))
    for part in parts[:-1]:
        found = _get(found, part)
    if not parts:
        return _hash(_module(found))
    value = _get(found, parts[-1])
    if inspect.isclass(value):
        return _hash(_class(value))
    if layers := _layers(value):
        return _hash(_function(layers))
    return _hash(_variable(found, parts[-1], value))


def _hash(texts: list[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def _get(owner: Any, name: str) -> Any:
    """An attribute as the vendor made it, without asking descriptors for it."""
    holders = owner.__mro__ if isinstance(owner, type) else (owner,)
    for holder in holders:
        value = _own(holder).get(name, holder)
        if value is not holder:
            return value
    raise AttributeError(f"{owner.__name__} has no {name}")


def _own(owner: Any) -> dict[str, Any]:
    """The attributes of a class or module; those that this project replaced, as they were."""
    own = dict(vars(owner))
    # The last replacement of an attribute is undone first.
    for each in reversed(replacing.replacements()):
        if each.owner is owner and own.get(each.name) is each.value:
            if each.was_absent:
                del own[each.name]
            else:
                own[each.name] = each.original
    return own


def _layers(value: Any) -> list[FunctionType]:
    """A function, and those that it wraps; nothing of other values."""
    found: list[FunctionType] = []
    while value is not None:
        if isinstance(value, FunctionType):
            found.append(value)
        inner = getattr(value, "fget", None) or getattr(value, "__wrapped__", None)
        value = inner or getattr(value, "__func__", None)
    return found


class _Block(NamedTuple):
    """A definition in a file.

    Attributes:
        node: its syntax tree.
        offset: what makes a line of the file of a line of the tree.
    """

    node: ast.stmt
    offset: int

    def first_line(self, node: Any) -> int:
        """The line of the file at which a definition begins, with decorators."""
        return int(min(each.lineno for each in (node, *node.decorator_list))) + self.offset


@functools.lru_cache(16)
def _lines(path: str) -> list[str]:
    with open(path, encoding="utf-8") as file:
        return file.readlines()


def _block(path: str, start: int) -> _Block:
    """The definition that begins at a line.

    Args:
        path: of a file of Python code.
        start: the index of the line, decorators included.
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
            return _Block(node, start - bool(head))
        break
    raise OSError(f"no definition begins at line {start + 1} of {path}")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _is_inside(line: str, indent: int) -> bool:
    code = line.lstrip()
    return not code or code[0] in "#)]}" or _indent(line) > indent


def _find(path: str, parts: list[str]) -> _Block:
    """A definition by its qualified name."""
    lines, (outer, *inner) = _lines(path), parts
    pattern = re.compile(rf"[ \t]*(?:async +)?(?:def|class) +{re.escape(outer)}\b")
    found = [at for at, line in enumerate(lines) if pattern.match(line)]
    if not found:
        raise AttributeError(f"{Path(path).name} has no {outer}")
    start = min(found, key=lambda at: _indent(lines[at]))  # others are of definitions inside
    block = _block(path, _first_decorator(lines, start))
    for part in inner:
        body = _statements(getattr(block.node, "body", []))
        named = (each for each in body if isinstance(each, _DEFINITIONS) and each.name == part)
        node = next(named, None)
        if node is None:
            raise AttributeError(f"{Path(path).name} has no {'.'.join(parts)}")
        block = block._replace(node=node)
    return block


def _first_decorator(lines: list[str], start: int) -> int:
    """The line of the first decorator of the definition that begins at a line, or that line."""
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


def _find_file(module: str) -> str:
    """The file of a module, found without importing it or its package."""
    package, *rest = module.split(".")
    spec = find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder, *rest)
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return str(file)
    raise ModuleNotFoundError(f"No module named {module!r}", name=module)


def _read(path: str, parts: list[str]) -> list[str]:
    """A definition as its file has it."""
    if not parts:
        return [_text(_module_of(path))]
    try:
        return [_text(_find(path, parts).node)]
    except AttributeError:
        return [_text(each) for each in _assignments(path, ".".join(parts))]


def _module_of(path: str) -> ast.Module:
    return ast.parse("".join(_lines(path)))


def _function(layers: list[FunctionType]) -> list[str]:
    """The innermost function, and those around it that none of its decorators made."""
    *around, inner = layers
    node = _parse(inner)
    decorators = len(getattr(node, "decorator_list", ()))
    foreign = around[: max(0, len(around) - decorators)]
    return [_text(node), *(_text(_parse(each)) for each in foreign)]


def _parse(function: FunctionType) -> ast.AST:
    code = function.__code__
    if code.co_name != "<lambda>" and Path(code.co_filename).is_file():
        return _block(code.co_filename, code.co_firstlineno - 1).node
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def _class(of: type[Any]) -> list[str]:
    path = getattr(sys.modules.get(of.__module__), "__file__", None)
    if path is None:
        raise OSError(f"{of.__module__} has no file")
    block = _find(path, of.__qualname__.split("."))
    return [_text(block.node), *_differences(of, block.node, block, path)]


def _module(of: ModuleType) -> list[str]:
    if of.__file__ is None:
        raise OSError(f"{of.__name__} has no file")
    tree = _module_of(of.__file__)
    whole = _Block(ast.Pass(), 0)
    return [_text(tree), *_differences(of, tree, whole, of.__file__)]


def _differences(owner: Any, node: Any, block: _Block, path: str) -> Iterator[str]:
    """What a class or a module has in this process that its file does not say."""
    own = _own(owner)
    defined: dict[str, list[int]] = {}
    for each in _statements(node.body):
        if isinstance(each, _FUNCTIONS):
            defined.setdefault(_mangled(owner, each.name), []).append(block.first_line(each))
        elif isinstance(each, ast.ClassDef):
            inner = own.get(each.name)
            if inspect.isclass(inner) and inner.__module__ == _module_name(owner):
                yield from _differences(inner, each, block, path)
            else:
                yield f"{each.name} is another class"
        elif isinstance(each, ast.Assign | ast.AnnAssign):
            yield from _other_constants(owner, own, each)
    for name in sorted(defined.keys() - own.keys()):
        yield f"{name} is not there"
    names = own if isinstance(owner, type) else [name for name in own if name in defined]
    everywhere = [line for lines in defined.values() for line in lines]  # under another name, too
    for name in sorted(names):
        for function in _functions(own[name]):
            if not _is_of_file(function, path, defined.get(name, everywhere)):
                yield f"{name} {_text(_parse(function))}"


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements, with those that run on a condition."""
    for each in body:
        yield each
        if isinstance(each, ast.If | ast.Try | ast.With):
            yield from _statements([one for one in ast.iter_child_nodes(each) if _is_run(one)])


def _is_run(node: Any) -> bool:
    return isinstance(node, ast.stmt)


def _mangled(owner: Any, name: str) -> str:
    is_private = name.startswith("__") and not name.endswith("__")
    return f"_{owner.__name__.lstrip('_')}{name}" if is_private else name


def _module_name(owner: Any) -> str:
    return str(owner.__module__ if isinstance(owner, type) else owner.__name__)


def _other_constants(owner: Any, own: dict[str, Any], said: Any) -> Iterator[str]:
    """A constant with another value than its file says."""
    targets = said.targets if isinstance(said, ast.Assign) else [said.target]
    if len(targets) > 1 or not isinstance(targets[0], ast.Name) or said.value is None:
        return
    if isinstance(owner, type) and issubclass(owner, enum.Enum):
        return
    try:
        value = ast.literal_eval(said.value)
    except (ValueError, TypeError):
        return
    name = _mangled(owner, targets[0].id)
    found = own.get(name)
    if not hasattr(found, "__get__") and (type(found) is not type(value) or found != value):
        yield f"{name} = {found!r}"


def _functions(value: Any) -> list[FunctionType]:
    """The functions of an attribute: those that decorators made, and those that they wrap."""
    if isinstance(value, property):
        return [one for each in (value.fget, value.fset, value.fdel) for one in _functions(each)]
    if isinstance(value, functools.cached_property):
        value = value.func
    return _layers(value)


def _is_of_file(function: FunctionType, path: str, at: Any) -> bool:
    """Whether a function is one of a file, or was made by Python's own library."""
    code = function.__code__
    if code.co_filename == path:
        return code.co_firstlineno in at
    # That of dataclasses has no file.
    return code.co_filename == "<string>" or code.co_filename.startswith(_STANDARD)


def _variable(module: Any, name: str, value: Any) -> list[str]:
    """The statements that assign a variable of a module or items of it; functions in a dictionary
    that are of no such statement."""
    path = module.__file__
    said = _assignments(path, name)
    lines = {line for each in said for line in range(each.lineno, (each.end_lineno or 0) + 1)}
    values = value.values() if isinstance(value, dict) else ()
    foreign = {
        f"{function.__code__.co_filename} {function.__code__.co_firstlineno}": function
        for function in values
        if isinstance(function, FunctionType) and not _is_of_file(function, path, lines)
    }
    return [*map(_text, said), *(_text(_parse(foreign[key])) for key in sorted(foreign))]


def _assignments(path: str, name: str) -> list[ast.stmt]:
    found = [each for each in _module_of(path).body if name in _assigned(each)]
    if not found:
        raise AttributeError(f"{Path(path).name} has no {name}")
    return found


def _assigned(statement: ast.stmt) -> set[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    bases = (each.value if isinstance(each, ast.Subscript) else each for each in targets)
    return {base.id for base in bases if isinstance(base, ast.Name)}


def _text(node: Any) -> str:
    """A syntax tree as text that is the same in every Python, without docstrings: each has fields
    of its own, empty where code does not use them."""
    if type(node) is list:
        return f"[{','.join(map(_text, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = []
    for name in node._fields:
        value = getattr(node, name, None)
        if value is None or value == []:
            continue
        if name == "body" and isinstance(node, (*_DEFINITIONS, ast.Module)):
            value = _without_docstring(value)
        fields.append(f"{name}={_text(value)}")
    return f"{type(node).__name__}({','.join(fields)})"


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    said = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    if said and isinstance(first.value.value, str):  # type: ignore[attr-defined]
        return body[1:] or [ast.Pass()]
    return body
