"""Find out whether a pass would leave every operator of a graph unchanged.

Most of Arm's passes walk a graph because it has an operator of interest, and leave it unchanged:
the dtype is supported, the padding is known, nothing is grouped. The dry run calls the pass's
``call_operator`` for each node without the walk, and compares the call that it makes with the
node's. The first difference ends the dry run. It takes a tenth of the time of a walk, which creates
a new graph.
"""

from __future__ import annotations

import operator
from collections.abc import Set
from typing import Any

import torch
from executorch.exir import pass_base
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from executorch.exir.pass_base import NodeMetadata, ProxyValue
from torch.fx import GraphModule, Node, Proxy

from harness.vendors.replacements import AttributeReplacer

_RECORDED_CALL = "_conform_rehearsed"
_PASSES = "executorch.backends.arm."
# ``call_sym`` is called for symbols, which the dry run leaves to the walk.
_HOOKS = frozenset({"call_operator", "call_submodule", "call_sym"})
_COUNTING = "ArmPass.call_submodule"  # only counts the depth
_upstream = pass_base._ExportPassBase.call_operator


class _PassActs(BaseException):
    """The pass changes something; no ``except Exception`` of a pass may catch it."""


class _NoTracer:
    """A tracer that raises: a pass that uses it creates nodes."""

    def __getattr__(self, name: str) -> Any:
        raise _PassActs


class _RecordedCall:
    """The call that a pass gets, and the result that it gets for the same call."""

    def __init__(self, node: Node, args: Any, kwargs: Any, meta: NodeMetadata) -> None:
        self.given = (node.target, args, kwargs)
        self.meta = meta
        self.before = dict(meta.data)
        self.result = _create_proxy_value(node)
        self.times = 0

    def on(self, target: Any, args: Any, kwargs: Any, meta: Any) -> ProxyValue:
        """Compare a call that the pass makes, and return the node's value."""
        self.times += 1
        same = self.times == 1 and _are_same((target, args, kwargs), self.given)
        if not same or not isinstance(meta, NodeMetadata) or not _are_same(meta.data, self.before):
            raise _PassActs
        return self.result


_NO_TRACER = _NoTracer()


def _create_proxy_value(node: Node) -> ProxyValue:
    return ProxyValue(node.meta["val"], Proxy(node, _NO_TRACER))  # type: ignore[arg-type]


def _are_same(one: Any, other: Any) -> bool:
    """Return whether two calls have identical values, and equal numbers of the same type."""
    if one is other:
        return True
    if isinstance(one, tuple | list):
        pairs = type(one) is type(other) and len(one) == len(other)
        return pairs and all(map(_are_same, one, other))
    if isinstance(one, dict):
        keys = type(one) is type(other) and one.keys() == other.keys()
        return keys and all(_are_same(value, other[key]) for key, value in one.items())
    plain = type(one) in (int, float, bool, str) and type(one) is type(other)
    return plain and bool(one == other)


def supports_pass(kind: type[Any], hooks: Set[str]) -> bool:
    """Return whether the dry run works for a class of passes: Arm's, which read only arguments.

    Args:
        kind: a class of passes.
        hooks: methods of the walk that it overrides.
    """
    if not kind.__module__.startswith(_PASSES) or not hooks <= _HOOKS:
        return False
    return "call_submodule" not in hooks or kind.call_submodule.__qualname__ == _COUNTING


def has_no_effect(walking: Any, module: GraphModule) -> bool:
    """Return whether a pass leaves each operator of a graph unchanged.

    The graph is unchanged since it was traced, and has no subgraph.
    """
    own = vars(walking)
    before = dict(own)
    own["tracer"] = _NO_TRACER
    seen: dict[Node, Any] = {}
    try:
        for node in module.graph.nodes:
            if not _leaves_node(walking, node, seen):
                return False
    except (_PassActs, Exception):
        return False  # the walk raises the error again
    finally:
        own.clear()
        own.update(before)
    return True


def _leaves_node(walking: Any, node: Node, seen: dict[Node, Any]) -> bool:
    if node.op == "output":
        return True
    if node.op != "call_function":
        seen[node] = _create_proxy_value(node)
        return node.op == "placeholder"
    if node.target is operator.getitem:
        seen[node] = _create_proxy_value(node)
        return True
    if not isinstance(node.target, (torch._ops.OpOverload, EdgeOpOverload)):
        return False
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), seen.__getitem__)
    handed = _RecordedCall(node, tuple(args), dict(kwargs), NodeMetadata(node.meta))
    vars(walking)[_RECORDED_CALL] = handed
    result = walking.call_operator(node.target, handed.given[1], handed.given[2], handed.meta)
    seen[node] = handed.result
    return result is handed.result


def _call_operator(walking: Any, op: Any, args: Any, kwargs: Any, meta: Any) -> ProxyValue:
    """Replaces ``ExportPass.call_operator``."""
    handed: _RecordedCall | None = vars(walking).get(_RECORDED_CALL)
    if handed is not None:
        return handed.on(op, args, kwargs, meta)
    result: ProxyValue = _upstream(walking, op, args, kwargs, meta)
    return result


def install(replace: AttributeReplacer) -> None:
    """Make dry runs possible from now on."""
    replace(pass_base._ExportPassBase, "call_operator", _call_operator)
