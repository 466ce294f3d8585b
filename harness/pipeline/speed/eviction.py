"""Avoid holding finished programs in caches of exir and torch.

* exir compares a program with a copy after partitioning. An unbounded cache keeps each compared
  pair of nodes, and with a node its whole program: 400 objects an operator, which each full garbage
  collection walks. No pair occurs again in another comparison.
* Fake modes cache that a delegate call cannot be cached, by its arguments. The first one is the
  lowered partition with payload and weights, so that each lowered model would stay twice in memory.
* Each XNNPACK module that reports why a node is not partitioned keeps the last such node, and with
  it a model. The report needs only the node's name.

Assumes that the removed entries are never looked up again. Verified by digests of these caches and
their users (``originals``).
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
    """Replaces ``is_identical_graph``."""
    try:
        return bool(_upstream(*graphs))
    finally:
        utils.is_same_node.cache_clear()


def _keep_unless_delegated(cache: Any, key: Any, entry: Any) -> None:
    """Replaces ``_set_cache_key``."""
    if key.key[0] is not executorch_call_delegate:
        _keep(cache, key, entry)


def _say_why_by_name(why: Any, node: Any, reason: str) -> None:
    """Replaces ``WhyNoPartition.__call__``."""
    _say_why(why, node, reason)
    why.node = str(node)


def install(replace: AttributeReplacer) -> None:
    """Evict these entries from now on."""
    replace.replace_everywhere(_upstream, _is_identical_graph)
    replace(fake_tensor, "_set_cache_key", _keep_unless_delegated)
    replace(utils.WhyNoPartition, "__call__", _say_why_by_name)
