"""The tables of a history as text, for terminal and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from reports import text
from reports.columns import columns
from reports.history.broken import first_bad
from reports.history.flakiness import count_incomparable, flaky
from reports.history.steps import group_steps, steps
from reports.history.store import History, to_rows
from reports.history.trend import trends
from reports.history.words import bars, commits, level, move, outcomes
from reports.outcome import CellOutcome

_DAYS = 30
_NAME = 110
_DETAIL = 240
_COUNTED = ["passed", "rated", "conclusive", "red"]
PARTS = ("nights", "steps", "flaky", "first-bad")


@dataclass
class Section:
    """A heading, a table, an explanation, and the number of omitted rows."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""
    more: int = 0


@dataclass
class View:
    """All texts of a history, ready to print."""

    title: str
    facts: list[str]
    warnings: list[str]
    sections: list[Section] = field(default_factory=list)


@dataclass
class Findings:
    """The tables behind a view; tables that were not requested are None."""

    nights: pd.DataFrame | None = None
    steps: pd.DataFrame | None = None
    flaky: pd.DataFrame | None = None
    first_bad: pd.DataFrame | None = None
    cell: pd.DataFrame | None = None


def find(past: History, parts: Sequence[str], *, by: str = "cell", cell: str = "") -> Findings:
    """Compute the tables that ``parts`` (of :data:`PARTS`) name, and the series of one cell.

    If all runs are of one day, they are listed one by one.
    """
    return Findings(
        nights=trends(past, by=_unit(past)) if "nights" in parts and not cell else None,
        steps=steps(past, by=by) if "steps" in parts else None,
        flaky=flaky(past) if "flaky" in parts else None,
        first_bad=first_bad(past) if "first-bad" in parts else None,
        cell=past.series(cell) if cell and "nights" in parts else None,
    )


def make_view(past: History, found: Findings, *, limit: int) -> View:
    """Format the tables, with at most ``limit`` rows each."""
    runs = past.runs
    partial = int((~runs["complete"]).sum())
    facts = [
        f"{text.count(len(runs), 'run')} on {text.count(runs['day'].nunique(), 'day')}, "
        f"{runs['day'].iloc[0]} to {runs['day'].iloc[-1]}; {text.count(len(past.cells), 'cell')}"
    ]
    warnings = [text.line(problem, 400) for problem in past.problems]
    if partial:
        last = runs.loc[~runs["complete"], "run"].iloc[-1]
        warnings.append(f"{text.count(partial, 'run is', 'runs are')} incomplete, newest {last}")
    made = View(f"history of {past.folder}", facts, [text.line(each, 500) for each in warnings])
    if found.nights is not None:
        unit = _unit(past)
        made.sections += [_targets(found.nights, unit), _days(past, found.nights, limit, unit)]
    if found.cell is not None:
        made.sections.append(_cell(found.cell, limit))
    if found.steps is not None:
        made.sections.append(_steps(found.steps, limit))
    if found.first_bad is not None:
        made.sections.append(_first_bad(found.first_bad, limit))
    if found.flaky is not None:
        made.sections.append(_flaky(past, found.flaky, limit))
    return made


def _unit(past: History) -> str:
    """``day``, or ``run`` if all runs are of one day."""
    return "run" if past.runs["day"].nunique() == 1 and len(past.runs) > 1 else "day"


def _describe_moment(row: Any, unit: str) -> str:
    """The day, or the time of day (UTC) and the run."""
    return row["day"] if unit == "day" else f"{row['started']:%H:%M} {text.line(row['run'], 60)}"


def _targets(table: pd.DataFrame, unit: str) -> Section:
    days = list(dict.fromkeys(table.sort_values("started")[unit]))[-_DAYS:]
    shown = columns(table["target"].unique())
    names = table["target"].map({of: column.name for column in shown for of in column.targets})
    table = table.assign(target=pd.Categorical(names, categories=[column.name for column in shown]))
    rows = []
    for (line, target), part in table.groupby(["line", "target"], sort=True, observed=True):
        summed = part.groupby(["day", "run", "started"], sort=False)[_COUNTED].sum()
        by_day = {row[unit]: row for row in to_rows(summed.reset_index())}
        newest = by_day[part.iloc[-1][unit]]
        red = [_get_known(by_day.get(day), "red") for day in days]
        passed = [_get_known(by_day.get(day), "passed") for day in days]
        rows.append([
            text.line(str(target), _NAME), str(line), _describe_moment(newest, unit),
            _rate(newest), f"{newest['red']:,}", bars(red), bars(passed),
        ])  # fmt: skip
    return Section(
        "Targets",
        [
            "target",
            "line",
            "newest",
            "passed of rated",
            "red",
            f"red, by {unit}",
            f"passed, by {unit}",
        ],
        rows,
        f"bars: the last {text.count(len(days), unit)}{' with runs' if unit == 'day' else ''}, "
        f"each row scaled to its own maximum; · no conclusive cell in that {unit}",
    )


def _get_known(row: Any, name: str) -> float | None:
    return None if row is None or not row["conclusive"] else float(row[name])


def _rate(row: Any) -> str:
    if not row["conclusive"]:
        return "none executed"
    return f"{row['passed']:,} of {row['rated']:,} ({text.percent(row['passed'], row['rated'])})"


def _days(past: History, table: pd.DataFrame, limit: int, unit: str) -> Section:
    kept = ["passed", "rated", "conclusive", "red", "xfailed", "passed_vacuously",
            "lowered_only", "unsupported", "unavailable", "not_run", "disappeared",
            "seconds"]  # fmt: skip
    order = ["started", "day", "line", "run", "commit"]
    days = table.groupby(order, sort=False)[kept].sum().reset_index()
    whole = dict(zip(past.runs["run"], past.runs["complete"], strict=True))
    rows = []
    for row in to_rows(days.iloc[::-1].head(limit)):
        rows.append([
            _describe_moment(row, unit), row["line"],
            (row["commit"][:10] or "(unknown)") + ("" if whole[row["run"]] else " INCOMPLETE"),
            _rate(row),
            *(f"{row[name]:,}" for name in kept[3:-1]),
            text.seconds(row["seconds"]),
        ])  # fmt: skip
    names = [unit, "line", "commit", "passed of rated", "red", "xfailed",
             CellOutcome.VACUOUS.label, CellOutcome.LOWERED.label, "unsupported", "unavailable",
             "not run", "disappeared", "time"]  # fmt: skip
    note = f"disappeared: cells that only the previous {unit} had; time: sum over all cells"
    return Section(
        "Days" if unit == "day" else f"Runs of {table['day'].iloc[0]}",
        names,
        rows,
        note,
        max(0, len(days) - limit),
    )


def _steps(table: pd.DataFrame, limit: int) -> Section:
    groups = group_steps(table)
    rows = []
    for row in to_rows(groups.head(limit)):
        first = table[
            (table["name"] == row["examples"][0])
            & (table["metric"] == row["metric"])
            & (table["started_after"] == row["started_after"])
        ].iloc[0]
        also = [row["environment"]] if row["environment"] else []
        also += [f"{text.count(row['between'], 'run')} in between"] if row["between"] else []
        rows.append([
            row["day"], row["metric"],
            f"{row['worse']:,} worse, {row['steps'] - row['worse']:,} better",
            f"{text.line(row['examples'][0], _NAME)}: {level(first['before'], row['unit'])} → "
            f"{level(first['after'], row['unit'])} "
            f"({move(row['unit'], first['difference'], first['ratio'])})",
            text.line(row["target"], _NAME), commits(row, "commit_before", "commit_after"),
            text.line("; ".join(also), _DETAIL),
        ])  # fmt: skip
    note = "Levels that lasted three or more runs; the table shows the clearest step of each group."
    columns = ["since", "metric", "cells", "clearest step", "target", "commits", "other changes"]
    title = f"Step changes: {len(table):,} in {text.count(len(groups), 'group')}, newest first"
    return Section(title, columns, rows, note, max(0, len(groups) - limit))


def _first_bad(table: pd.DataFrame, limit: int) -> Section:
    rows = []
    for row in to_rows(table.head(limit)):
        gap = f"; in between: {outcomes(row['between'])}" if row["between"] else ""
        since = "never passed" if row["never_passed"] else f"good in {row['last_good']}"
        rows.append([
            row["day"], text.line(row["id"], _NAME), CellOutcome(row["now"]).label,
            text.line(f"{row['first_bad']}; {since}{gap}", _DETAIL),
            f"not after {row['commit_bad'][:10] or '(unknown)'}"
            if row["never_passed"]
            else commits(row, "commit_good", "commit_bad"),
            f"{row['red_runs']:,}", text.line(row["error"], _DETAIL),
        ])  # fmt: skip
    columns = ["since", "cell", "now", "first bad run", "commits", "red runs", "error"]
    title = f"Red now: {text.count(len(table), 'cell')}, newest first"
    return Section(title, columns, rows, "", max(0, len(table) - limit))


def _flaky(past: History, table: pd.DataFrame, limit: int) -> Section:
    rows = [
        [
            row["last_day"], text.line(row["id"], _NAME), outcomes(row["outcomes"]),
            f"{row['others']:,} of {row['runs']:,}", row["commit"][:10],
            text.line(" and ".join(row["example"]), _DETAIL),
        ]
        for row in to_rows(table.head(limit))
    ]  # fmt: skip
    unknown = count_incomparable(past)
    note = "Different outcomes with the same commit, seed, packages and machine."
    if unknown:
        note += (f" {text.count(unknown, 'run has', 'runs have')} local changes or no commit and "
                 "cannot be compared.")  # fmt: skip
    columns = ["last", "cell", "outcomes", "unusual", "commit", "runs"]
    title = f"Flaky: {text.count(len(table), 'cell')}"
    return Section(title, columns, rows, note, max(0, len(table) - limit))


def _cell(table: pd.DataFrame, limit: int) -> Section:
    spelled = {"sqnr_db": "dB", "bound_used": "× bound", "seconds": "s", "program_bytes": "B",
               "delegates": "delegates"}  # fmt: skip
    rows = []
    for row in to_rows(table.iloc[::-1].head(limit)):
        rows.append([
            row["day"], row["line"], row["commit"][:10] or "(unknown)",
            CellOutcome(row["outcome"]).label,
            *("–" if pd.isna(row[name]) else level(row[name], unit)
              for name, unit in spelled.items()),
            "" if pd.isna(row["error"]) else text.line(row["error"], _DETAIL),
        ])  # fmt: skip
    columns = ["day", "line", "commit", "outcome", "SQNR", "bound used", "time", "program",
               "delegates", "error"]  # fmt: skip
    return Section("Runs of the cell", columns, rows, "", max(0, len(table) - limit))
