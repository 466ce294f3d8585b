"""Step changes: lasting changes of a metric of a cell, an op or a target, with the commit range."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.errors import UsageError
from reports.history.changes import LevelChange, change_points
from reports.history.store import OUTCOMES, History, to_rows
from reports.outcome import CellOutcome

Floats = NDArray[np.float64]

# Above any SQNR in float64; replaces the infinite SQNR of an exact output.
_EXACT_DB = 400.0
_HUGE = 1e9
_FEWEST_CELLS = 3  # a median of fewer is just one of the cells


@dataclass(frozen=True)
class SeriesMetric:
    """A metric that is searched for steps.

    Attributes:
        name: as in :meth:`History.metric`.
        unit: of ``before`` and ``after``.
        worse: +1 if larger is worse, -1 if smaller is.
        floor: smallest step that matters: a share (0.25 is 25 %) when ``ratio``, else in the
            unit.
        ratio: whether levels are compared by their ratio.
        least: smallest difference in the unit that matters, in addition to ``floor``.
    """

    name: str
    unit: str
    worse: int
    floor: float
    ratio: bool = False
    least: float = 0.0


METRICS: Mapping[str, SeriesMetric] = {
    metric.name: metric
    for metric in (
        SeriesMetric("sqnr_db", "dB", -1, 1.0),
        SeriesMetric("bound_used", "× bound", +1, 0.05),
        SeriesMetric("seconds", "s", +1, 0.25, ratio=True, least=0.05),
        SeriesMetric("program_bytes", "B", +1, 0.01, ratio=True, least=64),
        SeriesMetric("planned_memory", "B", +1, 0.01, ratio=True, least=64),
        SeriesMetric("delegates", "delegates", +1, 1),
        SeriesMetric("delegated_nodes", "nodes", -1, 1),
    )
}

_COLUMNS = [
    "metric", "unit", "name", "target", "op", "cells", "line", "before", "after", "difference",
    "ratio", "worse", "score", "nights", "lasts", "run_before", "run_after", "started_before",
    "started_after", "day", "commit_before", "commit_after", "dirty", "between", "environment",
]  # fmt: skip

# A cell that failed early took less time: compare only cells that executed to the end.
_EXECUTED = [CellOutcome.PASSED, CellOutcome.UNDELEGATED, CellOutcome.DEGRADED,
             CellOutcome.VACUOUS, CellOutcome.MISMATCH, CellOutcome.XPASSED]  # fmt: skip


def steps(past: History, *, by: str = "cell", metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """Find every lasting change of level, newest first.

    A series has runs of one system and machine (``line``) only; times also of one processor and
    number of cores. A level must last three runs. Times count only for cells that executed to
    the end.

    Args:
        past: a history.
        by: ``"cell"``; or ``"op"`` (an op on a target) or ``"target"`` for the median deviation
            of at least three cells from their own medians, which shows a small step that the
            cells have in common.
        metrics: names in :data:`METRICS`; all by default.

    Returns:
        A row per step. ``name`` is the cell, the op or the target. ``before`` and ``after`` are
        medians in ``unit``. The step began after ``run_before`` and not later than
        ``run_after``; ``between`` counts other runs there. ``commit_before`` still has the old
        level, ``commit_after`` the new one; ``dirty`` says that one of the two had local
        changes. ``environment`` describes other changes. ``nights`` counts the values at the new
        level; ``lasts`` is False if another step follows.

    Raises:
        UsageError: no such metric or grouping.
    """
    if by not in ("cell", "op", "target"):
        raise UsageError(f"steps by {by!r}: there are cell, op and target")
    names = list(METRICS) if metrics is None else list(metrics)
    if unknown := [name for name in names if name not in METRICS]:
        raise UsageError(f"no metric {unknown[0]!r}; there are {', '.join(METRICS)}")
    runs = _Runs(past.runs)
    series = _cells(past) if by == "cell" else _groups(past, by)
    members = [each.members for each in series]
    past.read(*names)
    rows: list[dict[str, Any]] = []
    for name in names:
        metric = METRICS[name]
        values = _scale(past, metric)
        for where in runs.comparable(timed=metric.name == "seconds"):
            part = values[where]
            if by != "cell":
                part = _common(part, members)
            floor = np.log1p(metric.floor) if metric.ratio else metric.floor
            for change in change_points(part, float(floor)):
                row = _row(metric, change, series[change.series], where, runs)
                if row is not None:
                    rows.append(row)
    made = pd.DataFrame(rows, columns=_COLUMNS)
    order = ["started_after", "metric", "target", "name"]
    return made.sort_values(order, ascending=[False, True, True, True], ignore_index=True)


def group_steps(found: pd.DataFrame) -> pd.DataFrame:
    """Group steps of one metric and target between the same two runs; newest first.

    An upgrade may move a thousand cells: it becomes one row. ``steps`` counts the steps, ``worse``
    the steps for the worse; ``ratio`` and ``difference`` are medians; ``examples`` has the names
    of the three largest by ``score``.
    """
    keys = ["metric", "unit", "line", "target", "started_before", "started_after"]
    columns = [*keys, "steps", "worse", "difference", "ratio", "day", "run_before", "run_after",
               "commit_before", "commit_after", "dirty", "between", "environment",
               "examples"]  # fmt: skip
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in to_rows(found):
        groups.setdefault(tuple(row[name] for name in keys), []).append(row)
    rows = []
    for key, members in groups.items():
        first = members[0]
        clearest = sorted(members, key=lambda row: -row["score"])[:3]
        rows.append({
            **dict(zip(keys, key, strict=True)),
            "steps": len(members),
            "worse": sum(bool(row["worse"]) for row in members),
            "difference": statistics.median(row["difference"] for row in members),
            "ratio": statistics.median(row["ratio"] for row in members),
            **{name: first[name] for name in columns[10:-1]},
            "examples": [row["name"] for row in clearest],
        })  # fmt: skip
    made = pd.DataFrame(rows, columns=columns)
    return made.sort_values(
        ["started_after", "worse", "steps"], ascending=False, ignore_index=True, kind="stable"
    )


@dataclass(frozen=True)
class _Series:
    name: str
    target: str
    op: str
    members: NDArray[np.int64]


class _Runs:
    """The runs as plain dicts, which are faster than pandas rows."""

    def __init__(self, runs: pd.DataFrame) -> None:
        self.facts = to_rows(runs)

    def comparable(self, *, timed: bool) -> Iterator[NDArray[np.int64]]:
        groups: dict[tuple[Any, ...], list[int]] = {}
        for position, run in enumerate(self.facts):
            key = (run["line"], *((run["processor"], run["cores"]) if timed else ()))
            groups.setdefault(key, []).append(position)
        yield from (np.array(group) for group in groups.values())

    def difference(self, old: int, new: int) -> str:
        first, second = self.facts[old], self.facts[new]
        said = [
            f"{name} {first[name]} → {second[name]}"
            for name in ("python", "platform", "processor", "cores", "seed")
            if first[name] != second[name]
        ]
        before, after = first["packages"], second["packages"]
        for name in sorted(before.keys() | after.keys()):
            pair = before.get(name, "none"), after.get(name, "none")
            if pair[0] != pair[1]:
                said.append(f"{name} {pair[0]} → {pair[1]}")
        return ", ".join(said)


def _scale(past: History, metric: SeriesMetric) -> Floats:
    values = past.metric(metric.name)
    if metric.name == "seconds":
        counted = np.isin(past.outcomes, [OUTCOMES.index(each) for each in _EXECUTED])
        values = np.where(counted, values, np.nan)
    if metric.ratio:
        logarithms: Floats = np.log(np.where((values > 0) & (values < np.inf), values, np.nan))
        return logarithms
    cap = _EXACT_DB if metric.name == "sqnr_db" else _HUGE
    return np.clip(values, -cap, cap)


def _cells(past: History) -> list[_Series]:
    columns = (past.cells[name].tolist() for name in ("id", "target", "op"))
    rows = zip(*columns, strict=True)
    return [_Series(name, target, op, np.array([at])) for at, (name, target, op) in enumerate(rows)]


def _groups(past: History, by: str) -> list[_Series]:
    made = []
    for key, cells in past.cells.groupby(["op", "target"] if by == "op" else ["target"]):
        names = [str(part) for part in key]
        op, target = (names[0], names[1]) if by == "op" else ("", names[0])
        if len(cells) >= _FEWEST_CELLS:
            made.append(_Series(op or target, target, op, cells.index.to_numpy()))
    return made


def _common(values: Floats, groups: list[NDArray[np.int64]]) -> Floats:
    """Median deviation of the cells of a group from their own medians."""
    centre = _median(values)
    made = np.full((len(values), len(groups)), np.nan)
    for position, members in enumerate(groups):
        known = members[~np.isnan(centre[members])]
        if len(known) < _FEWEST_CELLS:
            continue
        away = values[:, known] - centre[known]
        middle = _median(np.ascontiguousarray(away.T))
        enough = (~np.isnan(away)).sum(axis=1) >= _FEWEST_CELLS
        made[:, position] = np.where(enough, middle, np.nan) + np.median(centre[known])
    return made


def _median(values: Floats) -> Floats:
    """Median of each column, ignoring NaN; NaN for a column of NaN only. No warnings."""
    ordered = np.sort(values, axis=0)
    number = (~np.isnan(values)).sum(axis=0)
    columns = np.arange(values.shape[1])
    low = ordered[np.maximum(number - 1, 0) // 2, columns]
    high = ordered[np.minimum(number // 2, len(values) - 1), columns]
    middle: Floats = np.where(number > 0, (low + high) / 2, np.nan)
    return middle


def _row(
    metric: SeriesMetric,
    change: LevelChange,
    series: _Series,
    where: NDArray[np.int64],
    runs: _Runs,
) -> dict[str, Any] | None:
    before, after = change.before, change.after
    if metric.ratio:
        before, after = float(np.exp(before)), float(np.exp(after))
    if abs(after - before) < metric.least:
        return None
    if metric.name == "sqnr_db":
        before, after = _uncap(before), _uncap(after)
    old, new = int(where[change.last_before]), int(where[change.first_after])
    first, second = runs.facts[old], runs.facts[new]
    return {
        "metric": metric.name,
        "unit": metric.unit,
        "name": series.name,
        "target": series.target,
        "op": series.op,
        "cells": len(series.members),
        "line": second["line"],
        "before": before,
        "after": after,
        "difference": after - before,
        "ratio": after / before if before and np.isfinite(before) else np.nan,
        "worse": (after - before) * metric.worse > 0,
        "score": change.score,
        "nights": change.length,
        "lasts": change.lasts,
        "run_before": first["run"],
        "run_after": second["run"],
        "started_before": first["started"],
        "started_after": second["started"],
        "day": second["day"],
        "commit_before": first["commit"],
        "commit_after": second["commit"],
        "dirty": bool(first["dirty"] or second["dirty"]),
        "between": change.first_after - change.last_before - 1,
        "environment": runs.difference(old, new),
    }


def _uncap(decibels: float) -> float:
    return math.copysign(math.inf, decibels) if abs(decibels) >= _EXACT_DB else decibels
