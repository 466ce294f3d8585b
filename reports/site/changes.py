"""First bad runs, flaky cells and step changes, from the history of all runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import ConformError
from harness.record.folder import RUN_FILE
from reports import text
from reports.outcome import CellOutcome

if TYPE_CHECKING:
    from reports.history import History

_SHOWN = 200
_TABLES = ("bad", "flaky", "steps")
_METRICS = {
    "sqnr_db": "SQNR",
    "bound_used": "Bound used",
    "seconds": "Time",
    "program_bytes": "Program size",
    "planned_memory": "Planned memory",
    "delegates": "Delegates",
    "delegated_nodes": "Delegated nodes",
}


def find_changes(places: Sequence[Path], shown: Mapping[Path, str]) -> dict[str, Any]:
    """Find changes in the history of each folder of runs, formatted for the page.

    Runs that are named singly have no history; a remark says so.

    Args:
        places: run folders and folders of runs of the site.
        shown: keys of the runs in the site, by resolved folder.
    """
    made: dict[str, Any] = {name: [] for name in _TABLES} | {"more": {}, "remarks": []}
    folders = [place for place in places if not (place / RUN_FILE).exists()]
    if not folders:
        made["remarks"].append("the history needs a folder of runs, but all runs were named singly")
        return made

    from reports import history

    for folder in folders:
        try:
            past = history.load(folder)
        except ConformError as error:
            made["remarks"].append(text.line(f"cannot load the history of {folder}: {error}", 300))
            continue
        keys = _Keys(past, shown)
        made["remarks"] += [text.line(line, 300) for line in past.problems]
        unknown = history.count_incomparable(past)
        if unknown:
            made["remarks"].append(
                f"{text.count(unknown, 'run')} with local changes or an unknown commit cannot "
                "reveal flaky cells"
            )
        tables = {
            "bad": [_bad(row, keys) for row in _records(history.first_bad(past))],
            "flaky": [_flaky(row, keys) for row in _records(history.flaky(past))],
            "steps": [_step(row, keys) for row in _records(history.steps(past))],
        }
        for name, rows in tables.items():
            made[name] += rows[:_SHOWN]
            made["more"][name] = made["more"].get(name, 0) + max(len(rows) - _SHOWN, 0)
    return made


def list_pairs(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The pairs of runs that rows of :func:`find_changes` link, by key, each once."""
    rows = (row for name in _TABLES for row in found[name])
    return list(dict.fromkeys(tuple(row["pair"]) for row in rows if row["pair"]))


class _Keys:
    """Maps the name of a run in the history to its key in the site; empty if not shown."""

    def __init__(self, past: History, shown: Mapping[Path, str]) -> None:
        pairs = zip(past.runs["run"], past.runs["path"], strict=True)
        self._known = {run: shown.get(Path(path).resolve(), "") for run, path in pairs}

    def __call__(self, run: str) -> dict[str, str]:
        return {"run": text.line(run, 120), "key": self._known.get(run, "")}

    def pair(self, before: str, after: str) -> list[str] | None:
        """The keys of two runs that a row links; None if the site does not show both."""
        keys = [self._known.get(run, "") for run in (before, after)]
        return keys if all(keys) else None


def _records(table: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_dict("records")
    return rows


def _bad(row: dict[str, Any], keys: _Keys) -> dict[str, Any]:
    between = ", ".join(f"{number:,} {_label(name)}" for name, number in row["between"].items())
    return {
        "id": row["id"],
        "now": row["now"],
        "error": text.line(row["error"], 200),
        "since": keys(row["first_bad"]),
        "good": keys(row["last_good"]) if row["last_good"] else None,
        "pair": keys.pair(row["last_good"], row["first_bad"]),
        "commits": _commits(row["commit_good"], row["commit_bad"], dirty=row["dirty"]),
        "red": int(row["red_runs"]),
        "between": between,
    }


def _flaky(row: dict[str, Any], keys: _Keys) -> dict[str, Any]:
    return {
        "id": row["id"],
        "outcomes": [[name, int(number)] for name, number in row["outcomes"].items()],
        "runs": int(row["runs"]),
        "commit": text.line(row["commit"] or "")[:12],
        "example": [keys(run) for run in row["example"]],
        "pair": keys.pair(*row["example"][:2]) if len(row["example"]) > 1 else None,
    }


def _step(row: dict[str, Any], keys: _Keys) -> dict[str, Any]:
    return {
        "id": row["name"],
        "metric": _METRICS.get(row["metric"], row["metric"]),
        "change": f"{_spelled(row['metric'], row['before'])} → "
        f"{_spelled(row['metric'], row['after'])}",
        "worse": bool(row["worse"]),
        "lasts": bool(row["lasts"]),
        "nights": int(row["nights"]),
        "pair": keys.pair(row["run_before"], row["run_after"]),
        "to": keys(row["run_after"]),
        "commits": _commits(row["commit_before"], row["commit_after"], dirty=row["dirty"]),
        "between": int(row["between"]),
        "environment": text.line(row["environment"], 300),
    }


def _label(name: str) -> str:
    return next((outcome.label for outcome in CellOutcome if outcome.value == name), name)


def _commits(old: str, new: str, *, dirty: bool) -> str:
    ends = [text.line(commit)[:12] for commit in (old, new) if commit]
    aside = " with local changes" if dirty and ends else ""
    return " … ".join(dict.fromkeys(ends)) + aside


def _spelled(metric: str, value: float) -> str:
    if metric == "sqnr_db":
        return text.decibels(value)
    if metric == "bound_used":
        return text.bound_use(value)
    if metric == "seconds":
        return text.seconds(value)
    if metric in ("program_bytes", "planned_memory") and math.isfinite(value):
        return text.size(round(value))
    noun = "delegate" if metric == "delegates" else "node"
    return f"{text.measure(value)} {noun if value == 1 else noun + 's'}"
