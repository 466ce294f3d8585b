"""How limitations of torch's samples name their cases: by operator and number."""

from __future__ import annotations

from harness import Limitation
from suites.known import as_known, variants
from suites.ops.limitations import LIMITATIONS as OPS

SCALES = "The delegate derives the scale from the sizes, and does not look at scale_factor. "


def of(table: str) -> str:
    """Globs over cases in float32: operators with the numbers of their samples, separated by
    semicolons."""
    rows = (row.split() for row in table.split(";"))
    return "|".join(
        variants(f"opinfo/{operator}", " ".join(f"float32_{number}" for number in numbers))
        for operator, *numbers in rows
    )


def of_dtypes(dtypes: str, operators: str) -> str:
    """Globs over cases of operators in other dtypes."""
    names = " ".join(f"{dtype}_*" for dtype in dtypes.split())
    return "|".join(variants(f"opinfo/{operator}", names) for operator in operators.split())


def as_ours(target: str, case: str, table: str) -> Limitation:
    """What is known of a case of ``suites/ops``, of samples in float32."""
    return as_known(OPS, target, case, of(table))
