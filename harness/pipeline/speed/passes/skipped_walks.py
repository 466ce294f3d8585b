"""Avoid walks over a graph that change nothing.

A pass of exir traces a graph again, operator by operator, even if it has nothing to change; XNNPACK
does so eleven times a delegate. A walk returns a graph that is unchanged since its last trace as it
was, unless the pass acts on a node. Passes without hooks act on none, ``_ACTS`` tells for some
passes on which nodes they act, and Arm's passes get a dry run
(:mod:`harness.pipeline.speed.passes.dry_run`). Lowering to TOSA creates a hundred passes, most of
which do not walk: objects that only a walk needs are created when it begins.

Assumes which methods a walk calls and on which nodes these passes act. Verified by comparing the
graph with its last trace, and by digests of the walk and of these passes (``originals``).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from executorch.exir import pass_base
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from executorch.exir.passes import memory_format_ops_pass as memory_formats
from executorch.exir.passes.const_prop_pass import ConstPropPass
from executorch.exir.passes.dim_order_ops_registry import DimOrderOpsMap, MemoryFormatOpsMap
from executorch.exir.passes.legalize_portable_dim_order_pass import LegalizePortableDimOrderPass
from executorch.exir.passes.normalize_transpose_pass import NormalizeTransposePass
from executorch.exir.passes.remove_mixed_type_operators import RemoveMixedTypeOperators
from executorch.exir.passes.replace_broken_ops_with_function_ops_pass import (
    ReplaceBrokenOpsWithFunctionalOpsPass,
)
from executorch.exir.passes.scalar_to_tensor_pass import ScalarToTensorPass
from executorch.exir.passes.sym_to_tensor_pass import SymToTensorPass
from torch._export import pass_base as torch_pass_base
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.infra.pass_base import PassResult

from harness.pipeline.reference.unchanged import GraphNodes
from harness.pipeline.speed.passes import dry_run
from harness.vendors.replacements import AttributeReplacer

_MARK = "_conform_traced"
_upstream = pass_base._ExportPassBase.call
_upstream_torch_call = torch_pass_base._ExportPassBaseDeprecatedDoNotUse.call
_SCALARS = (bool, int, float)
_SYMBOLS = (torch.SymBool, torch.SymInt, torch.SymFloat)


def _is_aten(node: Node, *names: str) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and str(node.target._name) in names


def _is_view(node: Node) -> bool:
    is_operator = isinstance(node.target, (torch._ops.OpOverload, EdgeOpOverload))
    return is_operator and bool(node.target.is_view)  # type: ignore[union-attr]


def _has_number_for_tensor(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return False
    given = dict(zip((one.name for one in schema.arguments), node.args, strict=False))
    given.update(node.kwargs)
    return any(
        isinstance(given.get(one.name), _SCALARS) and isinstance(one.type, torch.TensorType)
        for one in schema.arguments
    )


def _may_mix_types(node: Node) -> bool:
    """Return whether the pass may act on a node: a promoted operator without one float dtype."""
    if not _is_aten(node, *_PROMOTED):
        return False
    values = [arg.meta.get("val") if isinstance(arg, Node) else None for arg in node.args]
    dtypes = {value.dtype if isinstance(value, torch.Tensor) else None for value in values}
    return len(dtypes) > 1 or not all(dtype and dtype.is_floating_point for dtype in dtypes)


_PROMOTED = (
    "aten::add.Tensor",
    "aten::mul.Tensor",
    "aten::sub.Tensor",
    "aten::div.Tensor",
    "aten::div.Tensor_mode",
    "aten::minimum",
)

# Nodes that a pass may change. A pass with a hook that is not listed here walks.
_ACTS: dict[type[Any], Callable[[Node], bool]] = {
    LegalizePortableDimOrderPass: lambda node: (
        node.target in LegalizePortableDimOrderPass._target_ops
    ),
    NormalizeTransposePass: lambda node: _is_aten(node, "aten::t"),
    RemoveMixedTypeOperators: _may_mix_types,
    ReplaceBrokenOpsWithFunctionalOpsPass: _is_view,
    ScalarToTensorPass: _has_number_for_tensor,
    SymToTensorPass: lambda node: isinstance(node.meta.get("val"), _SYMBOLS),
    # It folds nodes without inputs.
    ConstPropPass: lambda node: not node.all_input_nodes,
    memory_formats.DimOrderOpsRevertPass: lambda node: node.target in MemoryFormatOpsMap,
    memory_formats.MemoryFormatOpsPass: lambda node: node.target in DimOrderOpsMap,
}


@functools.cache
def _find_hooks(walking: Any) -> frozenset[str]:
    """Return the methods of the walk that a pass overrides."""
    base = pass_base.ExportPass
    of = inspect.getattr_static
    parts = {*vars(pass_base._ExportPassBase), *vars(base)} - {"__init__", "_abc_impl", "call"}
    return frozenset(
        part
        for part in parts
        if not part.startswith("__") and of(walking, part, None) is not of(base, part)
    )


def _has_no_effect(walking: Any, module: GraphModule) -> bool:
    kind: Any = type(walking)
    if not isinstance(walking, pass_base.ExportPass) or "args" in module.meta:
        return False
    traced: GraphNodes | None = vars(module.graph).get(_MARK)
    if traced is None or not traced.match(module.graph):
        return False
    acts, hooks = _ACTS.get(kind), _find_hooks(kind)
    if acts is not None and hooks <= {"call_operator"}:
        return not any(map(acts, _operators(module.graph)))
    if not hooks:
        return True
    return dry_run.supports_pass(kind, hooks) and dry_run.has_no_effect(walking, module)


def _operators(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "call_function"]


def _mark(module: GraphModule) -> None:
    """Record a graph after a walk, unless another walk would create new symbols."""
    if any(isinstance(child, GraphModule) for child in module.children()):
        return
    if not any("unbacked_bindings" in node.meta for node in module.graph.nodes):
        vars(module.graph)[_MARK] = GraphNodes(module.graph)


def _call(walking: Any, module: GraphModule) -> PassResult:
    """Replaces ``ExportPass.call``."""
    if _has_no_effect(walking, module):
        return PassResult(module, True)
    result: PassResult = _upstream(walking, module)
    _mark(result.graph_module)
    return result


def _call_torch_pass(walking: Any, module: GraphModule) -> PassResult:
    """Replaces ``call`` of torch's passes, which walk as exir's do."""
    result: PassResult = _upstream_torch_call(walking, module)
    _mark(result.graph_module)
    return result


_set_up = pass_base._ExportPassBase.__init__
_FOR_WALKS = frozenset({"interpreter", "tracer", "fake_tensor_mode", "_initialized"})


def _set_up_later(walking: Any) -> None:
    """Replaces ``ExportPass.__init__``, which creates a graph module and its class."""


def _set_up_now(walking: Any, name: str) -> Any:
    """Run the deferred ``__init__`` when one of its attributes is read."""
    if name not in _FOR_WALKS:
        raise AttributeError(f"{type(walking).__name__!r} object has no attribute {name!r}")
    given = dict(vars(walking))
    _set_up(walking)
    vars(walking).update(given)
    return vars(walking)[name]


def install(replace: AttributeReplacer) -> None:
    """Skip walks without effect from now on."""
    replace(pass_base._ExportPassBase, "__init__", _set_up_later)
    replace(pass_base._ExportPassBase, "__getattr__", _set_up_now)
    replace(pass_base._ExportPassBase, "call", _call)
    dry_run.install(replace)
    replace(torch_pass_base._ExportPassBaseDeprecatedDoNotUse, "call", _call_torch_pass)
