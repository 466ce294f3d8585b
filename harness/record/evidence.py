"""When a pass is evidence, and why it is none where any constant output would pass as well.

docs/numerics.md derives the threshold. Imports no torch.
"""

from __future__ import annotations

import enum
import math

import msgspec

CONFIDENCE = 0.95
FAULT = 0.05
"""A pass has to exclude, with this confidence, a fault that touches this share of the elements."""

ENOUGH = math.ceil(math.log(1 - CONFIDENCE) / math.log(1 - FAULT))
"""Conclusive elements among which such a fault is seen: 59 (S. S. Wilks, *Determination of Sample
Sizes for Setting Tolerance Limits*, Ann. Math. Statist. 12(1), 1941)."""

_ROUNDED = 1e-9  # a share is a quotient


def is_conclusive(share: float, elements: int) -> bool:
    """Whether an output that conforms is evidence: :data:`ENOUGH` of its elements are conclusive,
    or, in an output of fewer, the share :data:`FAULT` of them.

    Args:
        share: of the elements that the best constant gets wrong.
        elements: how many there are.
    """
    return share > 0 and (share >= FAULT - _ROUNDED or share * elements >= ENOUGH - _ROUNDED)


class Cause(enum.Enum):
    """Why a constant would pass in place of an output. The value is its spelling."""

    EMPTY = "no elements"
    INFINITE = "infinite bounds"  # no perturbed run says anything of the elements
    EQUAL = "equal values"
    WIDE = "bounds wider than values"
    SPREAD = "bounds as wide as the spread of the values"


class Vacuity(msgspec.Struct, frozen=True, kw_only=True):
    """Why an output that conforms is no evidence.

    ``constant`` is the constant that would pass at most elements, None where nothing is compared
    with one; ``alike`` is their number.
    """

    cause: Cause
    alike: int
    constant: float | None = None
