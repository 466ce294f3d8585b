"""Compute digests of functions, classes, variables and modules as they are in this process.

A digest covers the source of a definition without comments and docstrings. A digest of a class or
module covers all of its contents, and differences between this process and the file: a replaced,
added or deleted method, or a constant with another value. Attributes that this project has replaced
count with their original value, so that digests do not depend on the installed speed parts.

A module that is not imported is read from its file: no code has modified it, and an import takes
long or is what a part avoids.
"""

from __future__ import annotations

import ast
import enum
import functools
import hashlib
import inspect
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from harness.pipeline.speed.originals.sources import (
    FUNCTIONS,
    SourceBlock,
    find_assignments,
    find_definition,
    find_file,
    parse_definition,
    parse_file,
    read_definition,
    walk_statements,
    write_code,
)
from harness.vendors import replacements

_STANDARD = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_INSTALLED = ("site-packages", "dist-packages")


def digest(name: str) -> str:
    """Compute the digest of a definition.

    Args:
        name: ``module:qualified.name`` of a function, class or variable, or ``module``.

    Raises:
        ImportError: the module does not exist.
        AttributeError: the module has no such definition.
        OSError: the source is missing.
    """
    module, _, qualified = name.partition(":")
    parts = qualified.split(".") if qualified else []
    found: Any = sys.modules.get(module)
    if getattr(found, "__file__", None) is None:
        return _hash(read_definition(find_file(module), parts))
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
    """Return an attribute's original value without calling descriptors."""
    holders = owner.__mro__ if isinstance(owner, type) else (owner,)
    for holder in holders:
        value = _own(holder).get(name, holder)
        if value is not holder:
            return value
    raise AttributeError(f"{owner.__name__} has no {name}")


def _own(owner: Any) -> dict[str, Any]:
    """Return the attributes of a class or module, with original values of replaced ones."""
    own = dict(vars(owner))
    # The last replacement of an attribute is undone first.
    for each in reversed(replacements.list_replacements()):
        if each.owner is owner and own.get(each.name) is each.value:
            if each.was_absent:
                del own[each.name]
            else:
                own[each.name] = each.original
    return own


def _layers(value: Any) -> list[FunctionType]:
    """Return a function and the functions that it wraps; empty for other values."""
    found: list[FunctionType] = []
    while value is not None:
        if isinstance(value, FunctionType):
            found.append(value)
        inner = getattr(value, "fget", None) or getattr(value, "__wrapped__", None)
        value = inner or getattr(value, "__func__", None)
    return found


def _function(layers: list[FunctionType]) -> list[str]:
    """Write the innermost function, and its wrappers from outside the standard library."""
    *around, inner = layers
    # torch._dynamo wraps functions of torch when it is first used, to exclude them.
    wrappers = (
        each
        for each in around
        if not _is_standard(each) and not hasattr(each, "_torchdynamo_disable")
    )
    return [write_code(_parse(each)) for each in (inner, *wrappers)]


def _parse(function: FunctionType) -> ast.AST:
    code = function.__code__
    if code.co_name != "<lambda>" and Path(code.co_filename).is_file():
        return parse_definition(code.co_filename, code.co_firstlineno - 1).node
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def _class(of: type[Any]) -> list[str]:
    path = getattr(sys.modules.get(of.__module__), "__file__", None)
    if path is None:
        raise OSError(f"{of.__module__} has no file")
    block = find_definition(path, of.__qualname__.split("."))
    return [write_code(block.node), *_differences(of, block.node, block, path)]


def _module(of: ModuleType) -> list[str]:
    if of.__file__ is None:
        raise OSError(f"{of.__name__} has no file")
    tree = parse_file(of.__file__)
    whole = SourceBlock(ast.Pass(), 0)
    return [write_code(tree), *_differences(of, tree, whole, of.__file__)]


def _differences(owner: Any, node: Any, block: SourceBlock, path: str) -> Iterator[str]:
    """Yield differences between a class or module in this process and its file."""
    own = _own(owner)
    defined: dict[str, list[int]] = {}
    for each in walk_statements(node.body):
        if isinstance(each, FUNCTIONS):
            defined.setdefault(_mangle(owner, each.name), []).append(block.first_line(each))
        elif isinstance(each, ast.ClassDef):
            inner = own.get(each.name)
            if inspect.isclass(inner) and inner.__module__ == _module_name(owner):
                yield from _differences(inner, each, block, path)
            else:
                yield f"{each.name} is another class"
        elif isinstance(each, ast.Assign | ast.AnnAssign):
            yield from _find_changed_constants(owner, own, each)
    for name in sorted(defined.keys() - own.keys()):
        yield f"{name} is not there"
    names = own if isinstance(owner, type) else [name for name in own if name in defined]
    everywhere = [line for lines in defined.values() for line in lines]  # also under other names
    for name in sorted(names):
        functions = _functions(own[name])
        if name in defined and not functions:
            yield f"{name} is no function"
        for function in functions:
            code, lines = function.__code__, defined.get(name, everywhere)
            is_in_place = code.co_filename == path and code.co_firstlineno in lines
            is_made = (
                name not in defined and code.co_filename == "<string>"
            )  # generated, as for a dataclass
            if not (is_in_place or is_made or _is_standard(function)):
                yield f"{name} {write_code(_parse(function))}"


def _mangle(owner: Any, name: str) -> str:
    is_private = name.startswith("__") and not name.endswith("__")
    return f"_{owner.__name__.lstrip('_')}{name}" if is_private else name


def _module_name(owner: Any) -> str:
    return str(owner.__module__ if isinstance(owner, type) else owner.__name__)


def _find_changed_constants(owner: Any, own: dict[str, Any], statement: Any) -> Iterator[str]:
    """Yield a constant whose value differs from that in the file."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    if len(targets) > 1 or not isinstance(targets[0], ast.Name) or statement.value is None:
        return
    if isinstance(owner, type) and issubclass(owner, enum.Enum):
        return
    try:
        value = ast.literal_eval(statement.value)
    except (ValueError, TypeError):
        return
    name = _mangle(owner, targets[0].id)
    found = own.get(name)
    if not hasattr(found, "__get__") and (type(found) is not type(value) or found != value):
        yield f"{name} = {found!r}"


def _functions(value: Any) -> list[FunctionType]:
    """Return the functions of an attribute: decorators' results and the functions they wrap."""
    if isinstance(value, property):
        return [one for each in (value.fget, value.fset, value.fdel) for one in _functions(each)]
    if isinstance(value, functools.cached_property):
        value = value.func
    return _layers(value)


def _is_standard(function: FunctionType) -> bool:
    """Return whether a function is from Python's standard library, such as a context manager's."""
    file = function.__code__.co_filename
    is_installed = any(f"/{folder}/" in file for folder in _INSTALLED)
    return file.startswith(_STANDARD) and not is_installed


def _variable(module: Any, name: str, value: Any) -> list[str]:
    """Write the statements that assign a variable or its items.

    Also write functions from elsewhere that a dictionary contains.
    """
    assignments = find_assignments(module.__file__, name)
    values = value.values() if isinstance(value, dict) else ()
    functions = {function for function in values if isinstance(function, FunctionType)}
    foreign = [
        write_code(_parse(function))
        for function in functions
        if not _is_in(function, module.__file__, assignments)
    ]
    return [*map(write_code, assignments), *sorted(foreign)]


def _is_in(function: FunctionType, path: str, statements: list[ast.stmt]) -> bool:
    code = function.__code__
    lines = {line for each in statements for line in range(each.lineno, (each.end_lineno or 0) + 1)}
    return code.co_filename == path and code.co_firstlineno in lines
