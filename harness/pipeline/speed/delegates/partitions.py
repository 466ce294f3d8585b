"""Avoid node-by-node searches when partitions are merged.

For each two of an LSTM's hundred groups XNNPACK's partitioner checks whether a user leads back into
them, one node at a time. Set intersections replace the loop.

Assumes that ``downstreams_of`` returns the set of later nodes. Verified by digests of the viewer
and of ``validate_partition`` (``originals``).
"""

from __future__ import annotations

from typing import Any

from executorch.exir.backend.canonical_partitioners.group_partitioner import GroupBasedPartitioner
from torch.fx.passes.utils.fuser_utils import validate_partition

from harness.vendors.replacements import AttributeReplacer

_upstream = GroupBasedPartitioner._can_merge_partitions


def _can_merge_partitions(
    partitioner: GroupBasedPartitioner, one: int, other: int, partitions: dict[int, Any]
) -> bool:
    """Replaces ``GroupBasedPartitioner._can_merge_partitions``."""
    nodes = {*partitions[one].nodes, *partitions[other].nodes}
    users = {user for node in nodes for user in node.users}.difference(nodes)
    after = partitioner.dependency_viewer.downstreams_of
    if not all(nodes.isdisjoint(after(user)) for user in users):
        return False
    return bool(validate_partition(list(nodes)))


def install(replace: AttributeReplacer) -> None:
    """Merge partitions this way from now on."""
    replace(GroupBasedPartitioner, "_can_merge_partitions", _can_merge_partitions)
