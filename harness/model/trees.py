"""Map and flatten trees of arguments faster than torch, by the type of each value.

torch checks each value against ten classes before it treats it as a leaf. For operators that are
called hundreds of times this takes half of the time, although nearly all values are numbers,
tensors and lists of these. torch handles all other types.
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
"""Types of arguments that are neither tensors nor containers."""

_LEAVES = PLAIN | {torch.Tensor, FakeTensor, torch.nn.Parameter, Node, Proxy}
"""Common types that torch treats as leaves."""


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return the result of torch's ``tree_map`` with a function of one argument."""
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
    """Return the result of torch's ``tree_leaves``."""
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
