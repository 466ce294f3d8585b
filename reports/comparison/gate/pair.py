"""Judge two records of one cell under the default policy."""

from __future__ import annotations

from pathlib import Path

from harness.record.cell import Cell
from harness.record.run import Run, RunInfo
from reports.comparison.gate.judge import judge
from reports.comparison.gate.policy import Policy


def describe_refusal(before: Cell, after: Cell) -> str:
    """Return why the gate refuses the second record of a cell after the first.

    Returns:
        The worst change in one line; empty if the gate accepts all.
    """
    old, new = (
        Run(path=Path(), info=RunInfo(expected=[cell.id], complete=True), cells=[cell])
        for cell in (before, after)
    )
    red = judge(old, new, Policy()).red
    return f"{red[0].kind.label}: {red[0].description}" if red else ""
