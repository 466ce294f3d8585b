"""Partitions merged with fewer steps.

XNNPACK's partitioner asks of each two of an LSTM's hundred groups whether what uses them leads back
into them, and looks at each node on the way, one by one. Sets know whether they have one in common.
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
    """Stands for ``GroupBasedPartitioner._can_merge_partitions``."""
    nodes = {*partitions[one].nodes, *partitions[other].nodes}
    users = {user for node in nodes for user in node.users}.difference(nodes)
    after = partitioner.dependency_viewer.downstreams_of
    if not all(nodes.isdisjoint(after(user)) for user in users):
        return False
    return bool(validate_partition(list(nodes)))


def install(replace: AttributeReplacer) -> None:
    """Merge partitions this way from now on."""
    replace(GroupBasedPartitioner, "_can_merge_partitions", _can_merge_partitions)
