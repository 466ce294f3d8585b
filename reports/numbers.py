"""Numbers of a record that several reports use."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol


class DelegationCounts(Protocol):
    """Delegates, delegated nodes and fallback nodes, of a record or of a snapshot."""

    @property
    def delegates(self) -> int:
        """Number of delegates."""
        ...

    @property
    def delegated_nodes(self) -> int:
        """Number of nodes in delegates."""
        ...

    @property
    def undelegated_nodes(self) -> int:
        """Number of fallback nodes."""
        ...


def was_lowered(taken: DelegationCounts) -> bool:
    """Whether there is a lowered program with at least one node."""
    return bool(taken.delegates or taken.delegated_nodes or taken.undelegated_nodes)


def worst(pick: Callable[[Sequence[float]], float], values: Sequence[float]) -> float | None:
    """The worst of some numbers: ``pick`` (``max`` or ``min``) of them, NaN if any is NaN, None for
    no numbers.

    ``max`` and ``min`` alone depend on the order of a list with NaN.
    """
    if not values:
        return None
    return math.nan if any(map(math.isnan, values)) else pick(values)
