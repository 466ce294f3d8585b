"""Helpers that name the cases of limitations of OpInfo samples."""

from __future__ import annotations

from harness import Limitation
from suites.known import copy_limitation, variants
from suites.ops.limitations import LIMITATIONS as OPS

SCALES = "The delegate computes the scale from the two sizes and ignores scale_factor. "


def sample_globs(table: str) -> str:
    """Globs over cases, from operators separated by semicolons.

    Each operator is followed by numbers of its float32 samples, other dtypes, or ``*`` for all.
    """
    rows = (row.split() for row in table.split(";"))
    return "|".join(
        variants(f"opinfo/{operator}", " ".join(map(_name, samples))) for operator, *samples in rows
    )


def _name(sample: str) -> str:
    if sample == "*":
        return sample
    return f"float32_{sample}" if sample.isdigit() else f"{sample}_*"


def ops_limitation(target: str, case: str, table: str) -> Limitation:
    """Copy the limitation of a case of ``suites/ops`` to samples."""
    return copy_limitation(OPS, target, case, sample_globs(table))
