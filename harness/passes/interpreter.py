"""A program in the edge dialect, run node by node in eager PyTorch: what it returns and changes,
what shares memory, and where a node is not what its metadata says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from types import MappingProxyType
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from harness.execution.operators import op_name
from harness.vendors.torch import tree_leaves

SEED = 0
"""Of the generators before the first call of a program."""


@dataclass
class Observed:
    """What came of the calls of a program.

    Attributes:
        outputs: of each call, those that its caller gets.
        inputs: of each call, as it left them.
        state: after the last call, by name: buffers, and constants and parameters, too, of a
            program that writes in place.
        shared: pairs of outputs, inputs and buffers that have memory in common after a call.
        wrong: what was not as the metadata of its node says, by name of the node.
    """

    outputs: list[list[Any]] = field(default_factory=list)
    inputs: list[list[Any]] = field(default_factory=list)
    state: dict[str, torch.Tensor] = field(default_factory=dict)
    shared: set[tuple[str, str]] = field(default_factory=set)
    wrong: dict[str, str] = field(default_factory=dict)


def observe(
    program: ExportedProgram,
    calls: Sequence[Sequence[Any]],
    meanings: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
) -> Observed:
    """Run a program.

    Args:
        program: without delegates; left as it is.
        calls: the leaves of the inputs of each call; left as they are.
        meanings: what operators without a kernel compute, by name (``tosa.RESHAPE.default``).
    """
    seen = Observed()
    signature = program.graph_signature
    state: dict[str, Any] = {**program.state_dict, **program.constants}
    writes = any(map(_writes, program.graph_module.modules()))  # to what, is for the pass to know
    held = {
        spec.target: _copy(state[spec.target])
        for spec in signature.input_specs
        if spec.target in state and (writes or spec.kind is InputKind.BUFFER)
    }
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        for call in calls:
            given = iter(leaves := [_copy(leaf) for leaf in call])
            flat = [
                next(given) if spec.kind is InputKind.USER_INPUT
                else held[spec.target] if spec.target in held else state[spec.target]
                for spec in signature.input_specs
            ]  # fmt: skip
            runner = _Checking(program.graph_module, seen.wrong, meanings)
            returned = runner.run(*flat)
            outputs = []
            # What is returned is what it is when all is written.
            for spec, value in zip(signature.output_specs, returned, strict=True):
                if spec.kind is OutputKind.USER_OUTPUT:
                    outputs.append(value)
                elif spec.kind is OutputKind.BUFFER_MUTATION and spec.target is not None:
                    held[spec.target] = value
                elif spec.kind is OutputKind.USER_INPUT_MUTATION:
                    leaves[_position(program, spec.target)].copy_(value)
            seen.shared |= _shared({
                **{f"output {at}": value for at, value in enumerate(outputs)},
                **{f"input {at}": value for at, value in enumerate(leaves)},
                **{f"buffer {name}": value for name, value in held.items()},
            })  # fmt: skip
            held = {name: _copy(value) for name, value in held.items()}
            seen.outputs.append([_copy(value) for value in outputs])
            seen.inputs.append(leaves)
    seen.state = held
    return seen


def _writes(module: torch.nn.Module) -> bool:
    """Whether a graph has an operator that writes to what it is given."""
    return isinstance(module, torch.fx.GraphModule) and any(
        node.op == "call_function"
        and (schema := getattr(node.target, "_schema", None)) is not None
        and schema.is_mutable
        for node in module.graph.nodes
    )


def _position(program: ExportedProgram, name: str | None) -> int:
    return list(program.graph_signature.user_inputs).index(name)


def _copy(value: Any) -> Any:
    """A copy that lies in memory as the value does."""
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _shared(values: Mapping[str, Any]) -> set[tuple[str, str]]:
    storages = {
        name: value.untyped_storage().data_ptr()
        for name, value in values.items()
        if isinstance(value, torch.Tensor) and value.numel()
    }
    return {
        (one, other) for one, other in combinations(storages, 2) if storages[one] == storages[other]
    }


class _Checking(torch.fx.Interpreter):
    """Holds the result of each node against its metadata.

    Symbolic sizes are read off the placeholders; an expression of others is not looked at.
    """

    def __init__(
        self,
        module: torch.fx.GraphModule,
        wrong: dict[str, str],
        meanings: Mapping[str, Callable[..., Any]],
    ) -> None:
        super().__init__(module)
        self._wrong, self._meanings = wrong, meanings
        self._sizes: dict[Any, int] = {}

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        meaning = self._meanings.get(op_name(target), target)
        return super().call_function(meaning, args, kwargs)

    def run_node(self, node: torch.fx.Node) -> Any:
        result = super().run_node(node)
        if node.op in ("placeholder", "call_function"):
            said, found = tree_leaves(node.meta.get("val")), tree_leaves(result)
            if node.op == "placeholder":
                self._learn(said, found)
            problem = self._difference(node, said, found)
            if problem is not None:
                self._wrong.setdefault(node.name, f"{node.name}: {problem}")
        return result

    def _learn(self, said: Sequence[Any], found: Sequence[Any]) -> None:
        for one, other in zip(said, found, strict=False):
            if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
                for size, actual in zip(one.shape, other.shape, strict=False):
                    if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                        self._sizes[size.node.expr] = actual

    def _difference(
        self, node: torch.fx.Node, said: Sequence[Any], found: Sequence[Any]
    ) -> str | None:
        if "val" not in node.meta:
            return "has no metadata"
        if len(said) != len(found):
            return f"returned {len(found)} values where its metadata has {len(said)}"
        for one, other in zip(said, found, strict=True):
            if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
                continue
            if one.dtype != other.dtype:
                return f"is {other.dtype}, its metadata says {one.dtype}"
            sizes = [self._value(size) for size in one.shape]
            agree = len(sizes) == other.dim() and all(
                size in (None, actual) for size, actual in zip(sizes, other.shape, strict=True)
            )
            if not agree:
                return f"has shape {list(other.shape)}, its metadata says {list(one.shape)}"
        return None

    def _value(self, size: int | torch.SymInt) -> int | None:
        """What a size comes to; None where that is not known."""
        if isinstance(size, int):
            return size
        value = size.node.expr.subs(self._sizes)
        return int(value) if value.is_Integer else None
