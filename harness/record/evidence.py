"""When a pass is conclusive, and why it is vacuous: any constant output would also pass.

docs/numerics.md derives the threshold. Imports no torch.
"""

from __future__ import annotations

import enum
import math

import msgspec

CONFIDENCE = 0.95
FAULT = 0.05
"""A conclusive pass excludes, with this confidence, a fault in this share of the elements."""

ENOUGH = math.ceil(math.log(1 - CONFIDENCE) / math.log(1 - FAULT))
"""Number of conclusive elements that reveals such a fault: 59 (S. S. Wilks, *Determination of
Sample Sizes for Setting Tolerance Limits*, Ann. Math. Statist. 12(1), 1941)."""

_ROUNDED = 1e-9  # tolerance: a share is a quotient


def is_conclusive(share: float, elements: int) -> bool:
    """Whether a conforming output is evidence: :data:`ENOUGH` of its elements are conclusive or, in
    a smaller output, the share :data:`FAULT` of them.

    Args:
        share: share of the elements that the best constant gets wrong.
        elements: number of elements.
    """
    return share > 0 and (share >= FAULT - _ROUNDED or share * elements >= ENOUGH - _ROUNDED)


class VacuousCause(enum.Enum):
    """Why a constant would pass in place of an output. The value is its text in records."""

    EMPTY = "no elements"
    INFINITE = "infinite bounds"  # the perturbed runs give no finite bound
    EQUAL = "equal values"
    WIDE = "bounds wider than values"
    SPREAD = "bounds as wide as the spread of the values"


class Vacuity(msgspec.Struct, frozen=True, kw_only=True):
    """Why a conforming output is no evidence.

    ``constant`` is the constant that passes at the most elements, None where there is no such
    comparison; ``passing_elements`` is the number of these elements.
    """

    cause: VacuousCause
    passing_elements: int
    constant: float | None = None
