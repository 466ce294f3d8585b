"""First bad run: the run in which a cell that is red now became red."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from reports.history.store import ABSENT, OUTCOMES, History

_RED = [code for code, outcome in enumerate(OUTCOMES) if outcome.is_red]
_GOOD = [code for code, outcome in enumerate(OUTCOMES) if outcome.is_pass]
_COLUMNS = ["id", "case", "target", "op", "line", "outcome", "now", "error", "red_runs",
            "last_good", "first_bad", "started_good", "started_bad", "day", "commit_good",
            "commit_bad", "dirty", "between", "latest", "never_passed"]  # fmt: skip


def first_bad(past: History) -> pd.DataFrame:
    """Find the first bad run of each cell whose newest result is red; newest first.

    Unavailable, not-run and absent cells have no result. Each line (system and machine) is
    searched alone. The last good run is the last in which the cell passed, the first bad run the
    first red one after it. ``between`` counts other runs between the two by outcome, since the
    change may lie in any of them.

    Returns:
        ``id``, ``case``, ``target``, ``op``, ``line``; ``outcome`` of the first bad run, ``now``
        of the newest red one, ``error`` of that; ``red_runs`` since the first bad one;
        ``last_good``, ``first_bad`` (run names), ``started_good``, ``started_bad``, ``day`` of
        the first bad run, ``commit_good``, ``commit_bad``, ``dirty`` (one of the two runs had
        local changes), ``between`` (a dict), ``latest`` (the newest red run), ``never_passed``.
        The last good run and its commit are empty when the cell never passed.
    """
    rows: list[dict[str, Any]] = []
    for line, runs in past.runs.groupby("line", sort=False):
        where = runs.index.to_numpy()
        outcomes = past.outcomes[where]
        red, good = np.isin(outcomes, _RED), np.isin(outcomes, _GOOD)
        has_result = ~np.isin(outcomes, [ABSENT, *_without_result()])
        newest = _last(has_result)
        cells = np.flatnonzero((newest >= 0) & red[newest, np.arange(len(newest))])
        if not len(cells):
            continue
        passed = _last(good[:, cells])
        after = np.arange(len(where))[:, None] > passed[None, :]
        first = (red[:, cells] & after).argmax(axis=0)
        for position, cell in enumerate(cells.tolist()):
            good_at, bad_at, end = int(passed[position]), int(first[position]), int(newest[cell])
            between = Counter(
                "absent" if code == ABSENT else OUTCOMES[code].value
                for code in outcomes[good_at + 1 : bad_at, cell].tolist()
            )
            bad, latest = int(where[bad_at]), int(where[end])
            facts = past.cells.iloc[cell]
            rows.append({
                "id": facts["id"], "case": facts["case"], "target": facts["target"],
                "op": facts["op"], "line": line,
                "outcome": OUTCOMES[outcomes[bad_at, cell]].value,
                "now": OUTCOMES[outcomes[end, cell]].value,
                "error": latest,
                "red_runs": int(red[bad_at:, cell].sum()),
                **_range(past.runs, int(where[good_at]) if good_at >= 0 else None, bad),
                "between": dict(between) if good_at >= 0 else {},
                "latest": past.runs.at[latest, "run"],
                "never_passed": good_at < 0,
            })  # fmt: skip
    _fill_in_errors(past, rows)
    made = pd.DataFrame(rows, columns=_COLUMNS)
    return made.sort_values(["started_bad", "id"], ascending=[False, True], ignore_index=True)


def _without_result() -> list[int]:
    return [code for code, each in enumerate(OUTCOMES) if each.value in ("unavailable", "not_run")]


def _last(marks: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Row of the last mark in each column, -1 without one."""
    place = len(marks) - 1 - marks[::-1].argmax(axis=0)
    return np.where(marks.any(axis=0), place, -1)


def _range(runs: pd.DataFrame, good: int | None, bad: int) -> dict[str, Any]:
    dirty = bool(runs.at[bad, "dirty"]) or (good is not None and bool(runs.at[good, "dirty"]))
    return {
        "last_good": "" if good is None else runs.at[good, "run"],
        "first_bad": runs.at[bad, "run"],
        "started_good": pd.NaT if good is None else runs.at[good, "started"],
        "started_bad": runs.at[bad, "started"],
        "day": runs.at[bad, "day"],
        "commit_good": "" if good is None else runs.at[good, "commit"],
        "commit_bad": runs.at[bad, "commit"],
        "dirty": dirty,
    }


def _fill_in_errors(past: History, rows: list[dict[str, Any]]) -> None:
    places = {name: place for place, name in enumerate(past.cells["id"])}
    known: dict[int, dict[int, str]] = {}
    for row in rows:
        run = row["error"]
        if run not in known:
            known[run] = past.words(run, "error")
        row["error"] = known[run].get(places[row["id"]], "")
