"""Avoid generic dispatch for each argument value when a pass walks a graph.

A pass maps the arguments of each call four times and offers each value to ten classes. Almost all
values are numbers, lists and proxies, whose type alone determines upstream's result; other values
are left to upstream. The text of each node is formatted when it is read, not in advance.

Assumes upstream's result for the common types. Verified by digests of the tree functions and of the
tracers' ``create_arg`` (``originals``).
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from executorch.exir import pass_base
from torch._export import pass_base as torch_pass_base
from torch._subclasses import fake_tensor, functional_tensor
from torch.fx import Proxy, graph as fx_graph
from torch.fx.experimental.proxy_tensor import PythonKeyTracer
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.fx.proxy import _create_arg_bypass
from torch.utils import _pytree as pytree

from harness.model.trees import PLAIN, leaves, map_leaves
from harness.vendors.replacements import AttributeReplacer

# For these types all tracers do what torch.fx's own table does.
_COMMON = (
    Proxy,
    tuple,
    list,
    dict,
    immutable_list,
    immutable_dict,
    *PLAIN,
)


def _tree_map(function: Callable[..., Any], tree: Any, *rests: Any, **options: Any) -> Any:
    if rests or options:
        return pytree.tree_map(function, tree, *rests, **options)
    return map_leaves(function, tree)


def _tree_map_only(kind: Any, function: Callable[[Any], Any], tree: Any, **options: Any) -> Any:
    if options or not isinstance(kind, type):
        return pytree.tree_map_only(kind, function, tree, **options)
    return map_leaves(lambda leaf: function(leaf) if isinstance(leaf, kind) else leaf, tree)


def _tree_iter(tree: Any, is_leaf: Any = None) -> Iterator[Any]:
    """Replaces ``tree_iter``; collects all leaves first."""
    if is_leaf is not None:
        return iter(pytree.tree_iter(tree, is_leaf))
    return iter(leaves(tree))


class _DebugString:
    """The text of the pass's current node, formatted when it is read."""

    def __get__(self, walking: Any, owner: type[Any]) -> str | None:
        node = vars(walking).get("_at")
        return None if node is None else node.format_node()

    def __set__(self, walking: Any, text: None) -> None:
        vars(walking)["_at"] = None


def _run_node(interpreter: Any, node: torch.fx.Node) -> Any:
    interpreter.node = node
    vars(interpreter.callback)["_at"] = node
    return torch.fx.Interpreter.run_node(interpreter, node)


def _quick_argument(tracer: type[Any], replace: AttributeReplacer) -> None:
    """Make a tracer check first whether an argument has a common type."""
    create_arg = tracer.create_arg
    common = {kind: _create_arg_bypass[kind] for kind in _COMMON}

    def quick(self: Any, value: Any) -> Any:
        known = common.get(type(value))
        return create_arg(self, value) if known is None else known(self, value)

    replace(tracer, "create_arg", quick)


def install(replace: AttributeReplacer) -> None:
    """Map arguments this way from now on, in passes and fake tensor modes."""
    trees = types.ModuleType(pytree.__name__, pytree.__doc__)
    vars(trees).update(vars(pytree), tree_map=_tree_map, tree_map_only=_tree_map_only)
    for module in (pass_base, torch_pass_base, functional_tensor, fake_tensor):
        assert vars(module)["pytree"] is pytree
        replace(module, "pytree", trees)
    assert vars(fake_tensor)["tree_map"] is pytree.tree_map
    replace(fake_tensor, "tree_map", _tree_map)
    iterated = types.ModuleType(pytree.__name__, pytree.__doc__)
    vars(iterated).update(vars(pytree), tree_iter=_tree_iter)
    assert vars(fx_graph)["pytree"] is pytree
    replace(fx_graph, "pytree", iterated)
    walked = pass_base._ExportPassBase
    replace(walked, "node_debug_str", _DebugString())
    replace(walked.ExportInterpreter, "run_node", _run_node)
    for tracer in (
        PythonKeyTracer,
        pass_base._ExportPassBase.ExportTracer,
        pass_base.ExportPass.ExportTracer,
    ):
        _quick_argument(tracer, replace)
