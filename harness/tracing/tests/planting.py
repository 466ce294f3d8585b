"""Recipes that lower an operator wrongly, for the tests of this package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from executorch.exir.dialects._ops import ops
from torch.fx.passes.infra.pass_base import PassResult

from harness import Target
from harness.backend_api import Recipe
from harness.model import registry

Edit = Callable[[torch.fx.Node], bool]
"""Changes a matching node; returns whether it did."""


class EditPass:
    """A pass over the edge program that edits nodes, including nodes of branches."""

    def __init__(self, edit: Edit) -> None:
        self._edit = edit

    def __call__(self, module: torch.fx.GraphModule) -> PassResult:
        changed = 0
        for part in module.modules():
            if isinstance(part, torch.fx.GraphModule):
                changed += sum(map(self._edit, list(part.graph.nodes)))
                part.recompile()
        return PassResult(module, changed > 0)


def make_faulty_recipe(target: str, edit: Edit) -> Recipe:
    """Return the recipe of a target with an edit of every program before partitioning."""
    recipe = registry.recipe(Target.parse(target))
    return replace(recipe, transform_passes=lambda: [EditPass(edit), *recipe.transform_passes()])


def swap_operator(name: str, other: str) -> Edit:
    """Replace an operator (``aten.tanh.default``) by another one with the same arguments."""
    wrong = edge_operator(other)

    def edit(node: torch.fx.Node) -> bool:
        if node.target is not edge_operator(name):
            return False
        node.target = wrong
        return True

    return edit


def swap_operator_after(name: str, other: str, before: str) -> Edit:
    """Like :func:`swap_operator`, only where the argument is the result of ``before`` and has no
    other use.

    A kernel that fuses both operators may do this.
    """
    swap = swap_operator(name, other)

    def edit(node: torch.fx.Node) -> bool:
        source: Any = node.args[0] if node.args else None
        alone = isinstance(source, torch.fx.Node) and len(source.users) == 1
        return bool(alone and source.target is edge_operator(before) and swap(node))

    return edit


def swap_operator_in_large(name: str, other: str, nodes: int) -> Edit:
    """Like :func:`swap_operator`, but only in graphs of ``nodes`` nodes or more: no part fails
    alone."""
    swap = swap_operator(name, other)
    return lambda node: len(node.graph.nodes) >= nodes and swap(node)


def edge_operator(name: str) -> Any:
    """``aten.tanh.default`` in the edge dialect."""
    found = ops.edge
    for part in name.split("."):
        found = getattr(found, part)
    return found
