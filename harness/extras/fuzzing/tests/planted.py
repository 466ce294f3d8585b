"""Passes and a memory plan with one defect each, of kinds that upstream had."""

from __future__ import annotations

from typing import Any

import torch
from executorch.exir import ExecutorchBackendConfig, memory_planning
from executorch.exir.dialects._ops import ops
from executorch.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult, ExportPass
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.cse_pass import CSEPass
from executorch.exir.passes.reinplace import _derive_edge_inplace_overload
from torch.export import ExportedProgram
from torch.fx import Node

_EDGE = ops.edge.aten
_WRITABLE = (
    _EDGE.add.Tensor, _EDGE.mul.Tensor, _EDGE.sub.Tensor, _EDGE.exp.default, _EDGE.neg.default,
    _EDGE.sin.default, _EDGE.tanh.default,
)  # fmt: skip


class ReinplacesWhatIsRead(ExportedProgramPassBase):  # type: ignore[misc]  # exir is untyped here
    """Tracks reads only of values that it made in-place: the defect that started this project."""

    def call(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        read_later: set[Node] = set()
        for node in reversed(exported_program.graph.nodes):
            written = node.args[0] if node.args else None
            if node.op != "call_function" or not isinstance(written, Node):
                continue
            if node.target not in _WRITABLE:
                continue
            in_place = _derive_edge_inplace_overload(node.target)
            if in_place is None or written.op == "placeholder" or written in read_later:
                continue
            value, result = written.meta["val"], node.meta["val"]
            if (value.dtype, value.shape) != (result.dtype, result.shape):
                continue
            read_later.add(written)
            node.target = in_place
        exported_program.graph_module.recompile()
        return ExportedProgramPassResult(exported_program, True)


class MergesDraws(CSEPass):  # type: ignore[misc]
    """Merges equal expressions, including random ones."""

    UNSAFE_OPS = frozenset()


class LiftsAsFloats(ExportPass):  # type: ignore[misc]
    """Replaces every multiplier by a float32 tensor."""

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        if op is not _EDGE.mul.Scalar:
            return super().call_operator(op, args, kwargs, meta)
        number = super().call_operator(
            _EDGE.full.default, ([1], float(args[1])), {"dtype": torch.float32}, meta
        )
        return super().call_operator(_EDGE.mul.Tensor, (args[0], number), kwargs, meta)


class ForgetsOffsets(ExportPass):  # type: ignore[misc]
    """Folds slices into strided views that begin at offset 0."""

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        if op is not _EDGE.slice_copy.Tensor:
            return super().call_operator(op, args, kwargs, meta)
        value = args[0].to_tensor()
        with torch.no_grad():
            sliced = torch.ops.aten.slice.Tensor(value, *args[1:])
        sizes, strides = list(sliced.shape), list(sliced.stride())
        if not all(isinstance(size, int) for size in (*sizes, *strides)):
            return super().call_operator(op, args, kwargs, meta)
        return super().call_operator(
            _EDGE.as_strided_copy.default, (args[0], sizes, strides), {}, meta
        )


def frees_too_early() -> ExecutorchBackendConfig:
    """Plans memory as if the last read of every value were one operator earlier."""

    def hasty(alignment: int, specs: Any, *rest: Any, **named: Any) -> Any:
        kept = [(spec, list(spec.lifetime)) for spec in specs]
        for spec, (first, last) in kept:
            spec.lifetime = [first, max(first, last - 2)]  # its memory is a node, too
        try:
            return memory_planning.greedy(alignment, specs, *rest, **named)
        finally:
            for spec, lifetime in kept:
                spec.lifetime = lifetime

    suite = memory_planning.MemoryPlanningAlgorithmSuite(algo_list=[hasty])
    return ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(suite))
