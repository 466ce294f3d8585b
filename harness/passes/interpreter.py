"""Run a program in the edge dialect node by node in eager PyTorch.

Records outputs, changed inputs and state, values that share memory, and nodes whose result differs
from their metadata.
"""

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
"""Seed of the generators before the first call of a program."""


@dataclass
class ObservedRun:
    """The results of the calls of a program.

    Attributes:
        outputs: per call, the outputs that its caller receives.
        inputs: per call, the inputs after it.
        state: state after the last call, by name: buffers; for a program that writes in place also
            constants and parameters.
        shared: pairs of outputs, inputs and buffers that share memory after a call.
        wrong: differences between results and the metadata of their node, by name of the node.
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
) -> ObservedRun:
    """Run a program and record its behaviour.

    Args:
        program: without delegates; not changed.
        calls: the leaves of the inputs of each call; not changed.
        meanings: implementations of operators without a kernel, by name
            (``tosa.RESHAPE.default``).
    """
    observed = ObservedRun()
    signature = program.graph_signature
    state: dict[str, Any] = {**program.state_dict, **program.constants}
    # In-place operators may write to any state, as verifying the target is up to the pass.
    writes = any(map(_has_mutable_operator, program.graph_module.modules()))
    own_state = {
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
                else own_state[spec.target] if spec.target in own_state else state[spec.target]
                for spec in signature.input_specs
            ]  # fmt: skip
            runner = _MetadataChecker(program.graph_module, observed.wrong, meanings)
            returned = runner.run(*flat)
            outputs = []
            # Outputs may be views: they are copied after all mutations have been written.
            for spec, value in zip(signature.output_specs, returned, strict=True):
                if spec.kind is OutputKind.USER_OUTPUT:
                    outputs.append(value)
                elif spec.kind is OutputKind.BUFFER_MUTATION and spec.target is not None:
                    own_state[spec.target] = value
                elif spec.kind is OutputKind.USER_INPUT_MUTATION:
                    leaves[_position(program, spec.target)].copy_(value)
            observed.shared |= _find_shared_memory({
                **{f"output {at}": value for at, value in enumerate(outputs)},
                **{f"input {at}": value for at, value in enumerate(leaves)},
                **{f"buffer {name}": value for name, value in own_state.items()},
            })  # fmt: skip
            own_state = {name: _copy(value) for name, value in own_state.items()}
            observed.outputs.append([_copy(value) for value in outputs])
            observed.inputs.append(leaves)
    observed.state = own_state
    return observed


def _has_mutable_operator(module: torch.nn.Module) -> bool:
    """Whether a graph has an operator that writes to an argument."""
    return isinstance(module, torch.fx.GraphModule) and any(
        node.op == "call_function"
        and (schema := getattr(node.target, "_schema", None)) is not None
        and schema.is_mutable
        for node in module.graph.nodes
    )


def _position(program: ExportedProgram, name: str | None) -> int:
    return list(program.graph_signature.user_inputs).index(name)


def _copy(value: Any) -> Any:
    """Copy a tensor with its strides."""
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _find_shared_memory(values: Mapping[str, Any]) -> set[tuple[str, str]]:
    storages = {
        name: value.untyped_storage().data_ptr()
        for name, value in values.items()
        if isinstance(value, torch.Tensor) and value.numel()
    }
    return {
        (one, other) for one, other in combinations(storages, 2) if storages[one] == storages[other]
    }


class _MetadataChecker(torch.fx.Interpreter):
    """Compares the result of each node with its metadata.

    Symbolic sizes are taken from the placeholders; expressions with other symbols are not checked.
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
            expected, found = tree_leaves(node.meta.get("val")), tree_leaves(result)
            if node.op == "placeholder":
                self._record_sizes(expected, found)
            problem = self._find_difference(node, expected, found)
            if problem is not None:
                self._wrong.setdefault(node.name, f"{node.name}: {problem}")
        return result

    def _record_sizes(self, expected: Sequence[Any], found: Sequence[Any]) -> None:
        for one, other in zip(expected, found, strict=False):
            if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
                for size, actual in zip(one.shape, other.shape, strict=False):
                    if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                        self._sizes[size.node.expr] = actual

    def _find_difference(
        self, node: torch.fx.Node, expected: Sequence[Any], found: Sequence[Any]
    ) -> str | None:
        if "val" not in node.meta:
            return "has no metadata"
        if len(expected) != len(found):
            return f"returned {len(found)} values where its metadata has {len(expected)}"
        for one, other in zip(expected, found, strict=True):
            if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
                continue
            if one.dtype != other.dtype:
                return f"is {other.dtype}, its metadata says {one.dtype}"
            sizes = [self._evaluate_size(size) for size in one.shape]
            agree = len(sizes) == other.dim() and all(
                size in (None, actual) for size, actual in zip(sizes, other.shape, strict=True)
            )
            if not agree:
                return f"has shape {list(other.shape)}, its metadata says {list(one.shape)}"
        return None

    def _evaluate_size(self, size: int | torch.SymInt) -> int | None:
        """Return the value of a size; None where it has unknown symbols."""
        if isinstance(size, int):
            return size
        value = size.node.expr.subs(self._sizes)
        return int(value) if value.is_Integer else None
