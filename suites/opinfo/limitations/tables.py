"""How limitations of torch's samples name their cases."""

from __future__ import annotations

from harness import Limitation
from suites.known import copy_limitation, variants
from suites.ops.limitations import LIMITATIONS as OPS

SCALES = "The delegate derives the scale from the sizes, and does not look at scale_factor. "


def of(table: str) -> str:
    """Globs over cases, from operators that are separated by semicolons.

    Behind each stand the numbers of its samples in float32, other dtypes, or ``*`` for all.
    """
    rows = (row.split() for row in table.split(";"))
    return "|".join(
        variants(f"opinfo/{operator}", " ".join(map(_name, samples))) for operator, *samples in rows
    )


def _name(sample: str) -> str:
    if sample == "*":
        return sample
    return f"float32_{sample}" if sample.isdigit() else f"{sample}_*"


def as_ours(target: str, case: str, table: str) -> Limitation:
    """What is known of a case of ``suites/ops``, of samples."""
    return copy_limitation(OPS, target, case, of(table))
