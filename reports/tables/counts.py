"""Counts of outcomes: by target, by op and target, by cause."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from harness.record.run import Run
from reports.outcome import CellOutcome
from reports.summary import CellRow, RunSummary, Totals
from reports.tables.lazy import Frame, pandas


def totals(run: Run) -> Frame:
    """A row per target, with a count of each outcome.

    ``pass_rate`` is ``passed / rated`` and ``rated`` is all cells but the unsupported ones;
    unavailable, lowered-only, not-run and vacuous cells are in it and have columns of their own.
    It is NaN, not 0, where no cell passed, failed or was red.
    """
    records = [
        {
            "target": total.target,
            **_counts(total),
            "runtimes": " ".join(sorted(total.runtimes)),
            "seconds": total.seconds,
            "available": total.available,
            "reason": total.reason,
        }
        for total in RunSummary.from_run(run).totals
    ]
    columns = ["target", *_COUNTED, "runtimes", "seconds", "available", "reason"]
    return pandas().DataFrame(records, columns=columns).set_index("target")


def _counts(total: Totals) -> dict[str, Any]:
    return {
        "cells": total.cells,
        "rated": total.rated,
        "passed": total.passed,
        "pass_rate": math.nan if total.pass_rate is None else total.pass_rate,
        "red": total.red,
        **{column(outcome): total.counts[outcome] for outcome in CellOutcome},
    }


def coverage(run: Run) -> Frame:
    """A row per op and target with cells of it, with a count of each outcome.

    ``delegated`` counts cells with at least one delegated node, ``delegated_nodes`` and
    ``undelegated_nodes`` the calls in them; the other columns are as in :func:`totals`.
    """
    groups: dict[tuple[str, str], list[CellRow]] = {}
    for row in RunSummary.from_run(run).rows:
        groups.setdefault((row.op, row.target), []).append(row)
    records = []
    for (op, target), rows in sorted(groups.items()):
        total = Totals(target, Counter(row.outcome for row in rows))
        taken = [row.cell.delegation for row in rows if row.cell is not None]
        records.append({
            "op": op,
            "target": target,
            **_counts(total),
            "delegated": sum(not each.is_empty for each in taken),
            "delegated_nodes": sum(each.delegated_nodes for each in taken),
            "undelegated_nodes": sum(each.undelegated_nodes for each in taken),
        })  # fmt: skip
    columns = ["op", "target", *_COUNTED, "delegated", "delegated_nodes", "undelegated_nodes"]
    return pandas().DataFrame(records, columns=columns).set_index(["op", "target"])


def column(outcome: CellOutcome) -> str:
    """The name of an outcome's column in tables of totals."""
    # "passed" is the sum of two kinds of pass, which need names of their own.
    special = {
        CellOutcome.PASSED: "passed_delegated",
        CellOutcome.UNDELEGATED: "passed_nothing_delegated",
        CellOutcome.DEGRADED: "passed_degraded",
        CellOutcome.VACUOUS: "passed_vacuously",
        CellOutcome.LOWERED: "lowered_only",
    }
    return special.get(outcome, outcome.value)


_COUNTED = ["cells", "rated", "passed", "pass_rate", "red", *map(column, CellOutcome)]


def matrix(run: Run, by: str = "case") -> Frame:
    """The outcome of each case, or of each op, on each target; empty if not selected.

    Args:
        run: a loaded run.
        by: ``"case"`` for the outcome of every cell; ``"op"`` for ``passed/rated`` of the cases
            of an operator, or the outcome when it is the same for all and not a pass.

    Raises:
        ValueError: ``by`` is neither.
    """
    if by not in ("case", "op"):
        raise ValueError(f"unknown grouping by {by!r}; choose 'case' or 'op'")
    found = RunSummary.from_run(run)
    groups: dict[tuple[str, str], Counter[CellOutcome]] = {}
    for row in found.rows:
        key = (row.case if by == "case" else row.op), row.target
        groups.setdefault(key, Counter())[row.outcome] += 1
    names = sorted({name for name, _ in groups})
    columns = found.targets
    body = [[_square(groups.get((name, column)), by) for column in columns] for name in names]
    index = pandas().Index(names, name=by, dtype="str")
    header = pandas().Index(columns, name="target", dtype="str")
    return pandas().DataFrame(body, index=index, columns=header, dtype="str")


def _square(counts: Counter[CellOutcome] | None, by: str) -> str:
    if not counts:
        return ""
    first = next(iter(counts))
    if by == "case":
        return first.value
    total = Totals("", counts)
    if len(counts) == 1 and not first.is_pass:
        return first.value
    return f"{total.passed}/{total.rated}"


def limitations(run: Run) -> Frame:
    """A row per reason of a limitation: number of cells, their outcomes and targets."""
    gaps = RunSummary.from_run(run).limitation_groups
    shown = [CellOutcome.XFAILED, CellOutcome.UNSUPPORTED, CellOutcome.XPASSED]
    records = [
        {
            "reason": gap.reason,
            "link": gap.link,
            "cells": len(gap.rows),
            **{outcome.value: gap.counts[outcome] for outcome in shown},
            "targets": " ".join(gap.targets),
            "example": gap.rows[0].id,
        }
        for gap in gaps
    ]
    names = ["reason", "link", "cells", *(outcome.value for outcome in shown)]
    return pandas().DataFrame(records, columns=[*names, "targets", "example"])
