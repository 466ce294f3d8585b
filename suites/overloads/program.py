"""Programs that call overloads as ``torch.ops.aten.X.Y``, with arguments written as text.

A call is the text between the parentheses, in Python's syntax::

    f32(2, 3, 4, 5), [-1, -2], keepdim=True

A tensor is its dtype, the kind of its values, and its shape: ``f32.pos(2, 3)``, ``i32.below3(4)``.
``buffer`` among its names makes it a registered buffer of the module; others are inputs. A dtype is
``torch.float16``, as in Python.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from harness import Inputs
from harness.vendors.torch import tree_map_only
from suites import build
from suites.build import Input

DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
    "bool": torch.bool,
}
"""Names of dtypes of tensors in calls."""

BUFFER = "buffer"

_FLOATS: dict[str, Callable[..., Input]] = {
    "": build.randn,
    "pos": build.positive,
    "nz": build.nonzero,
    "unit": lambda *shape, **kw: build.uniform(-0.9, 0.9, *shape, **kw),
    "distinct": build.distinct,
    "above1": lambda *shape, **kw: build.uniform(1.1, 4.0, *shape, **kw),
}
_INTS: dict[str, Callable[..., Input]] = {
    "": lambda *shape, **kw: build.ints(-5, 6, *shape, **kw),
    "pos": lambda *shape, **kw: build.ints(1, 5, *shape, **kw),
    "distinct": lambda *shape, **kw: build.distinct(*shape, step=1, offset=0, **kw),
    "nz": lambda *shape, **kw: build.values([-3, -2, -1, 1, 2, 3], *shape, **kw),
    "below3": lambda *shape, **kw: build.ints(0, 3, *shape, **kw),
    "zero": lambda *shape, **kw: build.full(0, *shape, **kw),
    "wrapped": lambda *shape, **kw: build.ints(-2, 2, *shape, **kw),
}


@dataclass(frozen=True)
class Drawn:
    """A tensor of a call.

    Attributes:
        spec: draws it.
        is_buffer: whether it is a buffer of the module, and no input.
    """

    spec: Input
    is_buffer: bool


@dataclass(frozen=True)
class ParsedCall:
    """The arguments of a call, with a :class:`Drawn` in place of each tensor.

    Attributes:
        args: positional arguments.
        kwargs: arguments by name.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def tensors(self) -> list[Drawn]:
        """Its tensors, in order."""
        found: list[Drawn] = []
        tree_map_only(Drawn, found.append, (self.args, self.kwargs))
        return found


def parse_call(text: str) -> ParsedCall:
    """Parse the text of a call.

    Raises:
        ValueError: the text is no call, or names an unknown kind of tensor.
    """
    tree = ast.parse(f"call({text})", mode="eval").body
    if not isinstance(tree, ast.Call):
        raise ValueError(f"{text!r} has no arguments")
    kwargs = {word.arg: _evaluate(word.value) for word in tree.keywords if word.arg}
    return ParsedCall(tuple(map(_evaluate, tree.args)), kwargs)


def _evaluate(node: ast.expr) -> Any:
    match node:
        case ast.Call():
            names = ast.unparse(node.func).split(".")
            return _make_tensor(names, tuple(ast.literal_eval(size) for size in node.args))
        case ast.Attribute(value=ast.Name(id="torch"), attr=name):
            return getattr(torch, name)
        case ast.List():
            return [_evaluate(item) for item in node.elts]
        case ast.Name(id="inf"):
            return float("inf")
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id="inf")):
            return float("-inf")
    return ast.literal_eval(node)


def _make_tensor(names: list[str], shape: tuple[int, ...]) -> Drawn:
    dtype, *kinds = names
    kind = ".".join(name for name in kinds if name != BUFFER)
    if dtype == "bool":
        spec = build.bools(*shape)
    else:
        table = _FLOATS if DTYPES[dtype].is_floating_point else _INTS
        if kind not in table:
            raise ValueError(f"{'.'.join(names)} is no kind of tensor")
        spec = table[kind](*shape, dtype=DTYPES[dtype])
    return Drawn(spec, BUFFER in kinds)


def find_operator(name: str) -> Any:
    """The overload ``X.Y`` of ``torch.ops.aten``."""
    return operator.attrgetter(name)(torch.ops.aten)


class Overload(torch.nn.Module):
    """A module that makes calls of one overload; its output has each result by the call's text.

    Args:
        name: the overload, ``X.Y``.
        calls: texts of calls.
    """

    def __init__(self, name: str, calls: tuple[str, ...]) -> None:
        super().__init__()
        self.op = find_operator(name)
        self.calls = {text: parse_call(text) for text in calls}
        self.is_inplace = self.op._schema.is_mutable
        drawn = [each for call in self.calls.values() for each in call.tensors]
        self.count = len(drawn)
        for position, each in enumerate(drawn):
            if each.is_buffer:
                self.register_buffer(f"buffer_{position}", each.spec.make())

    def make_inputs(self) -> Inputs:
        """Draw the inputs."""
        drawn = [each for call in self.calls.values() for each in call.tensors]
        return tuple(each.spec.make() for each in drawn if not each.is_buffer)

    def forward(self, *tensors: torch.Tensor) -> dict[str, Any]:
        """The result of each call."""
        inputs, position = iter(tensors), 0

        def take(each: Drawn) -> torch.Tensor:
            nonlocal position
            name, position = f"buffer_{position}", position + 1
            return getattr(self, name) if each.is_buffer else next(inputs)  # type: ignore[no-any-return]

        results = {}
        for text, call in self.calls.items():
            args, kwargs = tree_map_only(Drawn, take, (call.args, call.kwargs))
            if self.is_inplace:
                args = (args[0].clone(), *args[1:])
            made = self.op(*args, **kwargs)
            # Programs do not support torch's named tuples as outputs.
            results[text] = tuple(made) if isinstance(made, tuple | list) else made
        return results


@dataclass(frozen=True)
class Build:
    """Makes the module of some calls of an overload, and its inputs."""

    name: str
    calls: tuple[str, ...]

    def __call__(self) -> tuple[torch.nn.Module, Inputs]:
        """Draw the buffers, then the inputs."""
        module = Overload(self.name, self.calls)
        return module, module.make_inputs()
