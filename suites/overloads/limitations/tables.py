"""Helpers that make limitations of calls of overloads from tables."""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import copy_limitation
from suites.ops.limitations import LIMITATIONS as OPS

Row = tuple[str, str, str, str]
"""Cases, the stage that fails, text of its error, and the upstream cause."""


def overload_globs(table: str) -> str:
    """Globs over cases, from overloads separated by spaces.

    An overload stands for its calls in float32; after a slash is another group, or ``call_N``.
    """
    return "|".join(
        f"overloads/{name if '/' in name else f'{name}/float32'}" for name in table.split()
    )


def ops_limitation(target: str, case: str, table: str) -> Limitation:
    """Copy the limitation of a case of ``suites/ops`` to overloads."""
    return copy_limitation(OPS, target, case, overload_globs(table))


def make_limitations(target: str, link: str, rows: list[Row]) -> list[Limitation]:
    """Make limitations of one target from a table of causes."""
    return [
        Limitation(
            target=target,
            case=overload_globs(cases),
            reason=reason,
            link=link,
            stage=stage,
            error=error,
            outcome=_find_outcome(stage, error),
        )
        for cases, stage, error, reason in rows
    ]


def _find_outcome(stage: str, error: str) -> Status:
    if error == "Aborted":
        return Status.CRASHED
    return Status.MISMATCH if stage == "compare" else Status.FAILED
