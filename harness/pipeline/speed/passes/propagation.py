"""Avoid a walk over the graph after each round of Arm's propagation of views and permutes.

The pass moves nodes, calls every operator on fake tensors to get the new shapes, and continues; a
model takes dozens of rounds. A round only changes the shapes after moved nodes. Between rounds only
these operators are called, in place; the graph is walked as upstream does when nothing moves.

Assumes that results depend only on the nodes' inputs, with the exceptions listed here. Verified by
digests of the pass and of ``ArmPass`` (``originals``).
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from executorch.backends.transforms.propagate_view_copy_permute_pass import (
    PropagateViewCopyPermutePass,
)
from executorch.exir.dialects._ops import ops
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.passes.infra.pass_base import PassResult

from harness.vendors.replacements import AttributeReplacer

# ArmPass.call_operator has no fake rule for these on integers: it keeps the old result.
_AS_THEY_WERE = {ops.edge.aten.bmm.default, ops.edge.aten.leaky_relu.default}

_Call = tuple[Any, Any, Any]

_upstream_call = PropagateViewCopyPermutePass.call
_upstream_retrace = PropagateViewCopyPermutePass._retrace


class _NotInPlace(Exception):
    """A node's result depends on more than the kinds of its inputs."""


class _Rounds:
    """The calls of a graph's nodes when their results were last computed.

    Args:
        graph_module: a graph after a walk: each node has the result of its operator.
    """

    def __init__(self, graph_module: torch.fx.GraphModule) -> None:
        modes = set()
        for node in graph_module.graph.nodes:
            if node.op == "call_function" and not isinstance(node.target, EdgeOpOverload):
                raise _NotInPlace
            if node.op != "output":
                value = node.meta.get("val")
                if type(value) is not FakeTensor or value._has_symbolic_sizes_strides:
                    raise _NotInPlace
                modes.add(value.fake_mode)
        if len(modes) != 1:
            raise _NotInPlace
        (self._mode,) = modes
        self._seen = {node: _call(node) for node in graph_module.graph.nodes}

    def update(self, graph_module: torch.fx.GraphModule) -> None:
        """Compute results of new or changed nodes, and of their users if the kind changed."""
        seen: dict[torch.fx.Node, _Call] = {}
        changed: set[torch.fx.Node] = set()
        with self._mode, enable_python_dispatcher():
            for node in graph_module.graph.nodes:
                call = seen[node] = _call(node)
                if node.op != "call_function":
                    continue
                known = self._seen.get(node)
                if _is_same(known, call) and changed.isdisjoint(node.all_input_nodes):
                    continue
                if node.target in _AS_THEY_WERE and node.meta.get("input_qparams"):
                    continue
                value = _result(node)
                if known is None or not _alike(value, node.meta["val"]):
                    changed.add(node)
                node.meta["val"] = value
        self._seen = seen


def _call(node: torch.fx.Node) -> _Call:
    return node.target, node.args, node.kwargs


def _is_same(known: _Call | None, call: _Call) -> bool:
    # fx creates new objects when arguments change.
    return known is not None and all(map(operator.is_, known, call))


def _result(node: torch.fx.Node) -> FakeTensor:
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda given: given.meta["val"])
    value = node.target(*args, **kwargs)  # type: ignore[operator]
    if type(value) is not FakeTensor or value._has_symbolic_sizes_strides:
        raise _NotInPlace
    return value


def _alike(one: torch.Tensor, other: Any) -> bool:
    return (
        type(other) is FakeTensor
        and one.shape == other.shape
        and one.dtype == other.dtype
        and one.stride() == other.stride()
    )


def _retrace(self: Any, graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Replaces the pass's ``_retrace``; see its ``call``."""
    rounds = self._rounds
    if rounds is not None:
        graph_module.graph.eliminate_dead_code()
        graph_module.graph.lint()
        try:
            rounds.update(graph_module)
        except _NotInPlace:
            pass
        else:
            self._unwalked = True
            return graph_module
    walked: torch.fx.GraphModule = _upstream_retrace(self, graph_module)
    try:
        self._rounds = _Rounds(walked)
    except _NotInPlace:
        self._rounds = None
    self._unwalked = False
    return walked


def _call_pass(self: Any, graph_module: torch.fx.GraphModule) -> PassResult:
    self._rounds, self._unwalked = None, False
    result: PassResult = _upstream_call(self, graph_module)
    if self._unwalked:
        return PassResult(_upstream_retrace(self, result.graph_module), result.modified)
    return result


def install(replace: AttributeReplacer) -> None:
    """Walk the graph only at the end of the pass from now on."""
    replace(PropagateViewCopyPermutePass, "_retrace", _retrace)
    replace(PropagateViewCopyPermutePass, "call", _call_pass)
