"""Trees of arguments, walked by a look at the type of each value.

torch asks ten classes about every value in a tree before it takes it for a leaf. Where a model's
operators are called a hundred times each, walking arguments is half of what that costs; and nearly
all are numbers, tensors and lists of these. What else there is, torch walks.
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Any

import torch
from torch.fx import Node, Proxy
from torch.fx.immutable_collections import immutable_dict, immutable_list

from harness.vendors.torch import FakeTensor, _pytree

PLAIN = frozenset(
    {
        bool,
        int,
        float,
        str,
        NoneType,
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
    }
)
"""Types of arguments that are what they are: no tensor, and nothing inside."""

_LEAVES = PLAIN | {torch.Tensor, FakeTensor, torch.nn.Parameter, Node, Proxy}
"""Types that are no tree to torch, and most values are of."""


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """What torch's ``tree_map`` makes of a tree with a function of one argument."""
    its = type(tree)
    if its is tuple or its is list or its is immutable_list:
        return its(
            [
                function(item) if type(item) in _LEAVES else map_leaves(function, item)
                for item in tree
            ]
        )
    if its is dict or its is immutable_dict:
        return its({key: map_leaves(function, value) for key, value in tree.items()})
    if its in _pytree.SUPPORTED_NODES or issubclass(its, tuple):
        return _pytree.tree_map(function, tree)
    return function(tree)


def leaves(tree: Any) -> list[Any]:
    """What torch's ``tree_leaves`` finds in a tree."""
    found: list[Any] = []
    _collect(tree, found)
    return found


def _collect(tree: Any, found: list[Any]) -> None:
    its = type(tree)
    if its is tuple or its is list or its is immutable_list:
        for item in tree:
            if type(item) in _LEAVES:
                found.append(item)
            else:
                _collect(item, found)
    elif its is dict or its is immutable_dict:
        for value in tree.values():
            _collect(value, found)
    elif its in _pytree.SUPPORTED_NODES or issubclass(its, tuple):
        found.extend(_pytree.tree_iter(tree))
    else:
        found.append(tree)
