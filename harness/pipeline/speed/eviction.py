"""What exir and torch keep of programs that were lowered long ago, forgotten.

A partitioner must leave the program as it was, and exir compares it with a copy; every pair of
nodes that it compares stays in a cache without bounds, and with a node its whole program: 400
objects an operator for as long as the process lives, which each full garbage collection walks. No
pair is met again in another comparison.

Fake modes keep that a call of a delegate cannot be kept, by its arguments; the first is the lowered
partition, with its payload and the weights that it was made from. Every model that a process lowers
would stay in it twice. No other call has the same partition.

Each module of XNNPACK's that says why a node is not partitioned keeps the last such node until it
says so of another, and with it a model. What it says of it needs the name alone.
"""

from __future__ import annotations

import functools
from typing import Any

from executorch.exir.backend import utils
from executorch.exir.delegate import executorch_call_delegate
from torch._subclasses import fake_tensor

from harness.vendors.replacements import AttributeReplacer

_upstream = utils.is_identical_graph
_keep = fake_tensor._set_cache_key
_say_why = utils.WhyNoPartition.__call__


@functools.wraps(_upstream)
def _is_identical_graph(*graphs: Any) -> bool:
    """Stands for ``is_identical_graph``."""
    try:
        return bool(_upstream(*graphs))
    finally:
        utils.is_same_node.cache_clear()


def _keep_unless_delegated(cache: Any, key: Any, entry: Any) -> None:
    """Stands for ``_set_cache_key``."""
    if key.key[0] is not executorch_call_delegate:
        _keep(cache, key, entry)


def _say_why_by_name(why: Any, node: Any, reason: str) -> None:
    """Stands for ``WhyNoPartition.__call__``."""
    _say_why(why, node, reason)
    why.node = str(node)


def install(replace: AttributeReplacer) -> None:
    """Forget what was compared, delegated and refused from now on."""
    replace.replace_everywhere(_upstream, _is_identical_graph)
    replace(fake_tensor, "_set_cache_key", _keep_unless_delegated)
    replace(utils.WhyNoPartition, "__call__", _say_why_by_name)
