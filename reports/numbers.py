"""Numbers of a record that several reports need, each computed in one place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol


class Taken(Protocol):
    """What a partitioner gave to the backend and left over, of a record or of a snapshot."""

    @property
    def delegates(self) -> int:
        """Number of delegates."""
        ...

    @property
    def delegated_nodes(self) -> int:
        """Calls in them."""
        ...

    @property
    def undelegated_nodes(self) -> int:
        """Calls outside."""
        ...


def was_lowered(taken: Taken) -> bool:
    """Whether there was a lowered program with a node in it."""
    return bool(taken.delegates or taken.delegated_nodes or taken.undelegated_nodes)


def worst(pick: Callable[[Sequence[float]], float], values: Sequence[float]) -> float | None:
    """The worst of some numbers, ``max`` or ``min`` of them; NaN if any is; None without one.

    ``max`` and ``min`` of a list with NaN depend on its order; NaN is always the worst.
    """
    if not values:
        return None
    return math.nan if any(map(math.isnan, values)) else pick(values)
