"""Flaky cells: different outcomes with the same code, environment and seed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from reports.history.store import ABSENT, OUTCOMES, History, to_rows
from reports.outcome import CellOutcome

# Not results: the cell was not tried.
_NO_RESULT = [CellOutcome.UNAVAILABLE, CellOutcome.NOT_RUN]
_COLUMNS = ["id", "case", "target", "op", "line", "outcomes", "runs", "others", "places",
            "first", "last", "last_day", "commit", "example"]  # fmt: skip


def flaky(past: History) -> pd.DataFrame:
    """Find cells with different outcomes in comparable runs, newest first.

    Runs are comparable when commit, seed, python, system, processor, cores and all recorded
    package versions are the same, and the work tree had no local changes. Several
    records of a cell in one run are compared too. Unavailable and not-run do not count as outcomes.

    Returns:
        ``id``, ``case``, ``target``, ``op``, ``line``; ``outcomes`` (a dict of counts in
        groups of runs that disagree), ``runs`` (their number), ``others`` (runs without the most
        frequent outcome), ``places`` (number of groups that disagree), ``first``, ``last``
        (run names), ``last_day``, ``commit`` of the newest group and ``example`` (two runs of
        it that differ, or one that has both).
    """
    seen = past.seen_outcomes()
    ignored = sum(1 << OUTCOMES.index(each) for each in _NO_RESULT)
    found: dict[tuple[int, str], list[NDArray[np.int64]]] = {}
    for line, runs in _group_alike(past.runs):
        bits = np.bitwise_or.reduce(seen[runs], axis=0) & np.uint32(~ignored & 0xFFFFFFFF)
        for cell in np.flatnonzero(bits & (bits - np.minimum(bits, 1))):
            found.setdefault((int(cell), line), []).append(runs)
    rows = [_row(past, seen, cell, line, groups) for (cell, line), groups in found.items()]
    made = pd.DataFrame(rows, columns=_COLUMNS)
    return made.sort_values(
        ["last_day", "others", "id"], ascending=[False, False, True], ignore_index=True
    )


def count_incomparable(past: History) -> int:
    """Count runs that cannot reveal flaky cells: they have local changes or no known commit."""
    return sum(not _is_known(run) for run in to_rows(past.runs))


def _is_known(run: Any) -> bool:
    return bool(run["commit"]) and run["dirty"] is False


def _group_alike(runs: pd.DataFrame) -> list[tuple[str, NDArray[np.int64]]]:
    groups: dict[tuple[Any, ...], list[int]] = {}
    for position, run in enumerate(to_rows(runs)):
        names = ("line", "commit", "seed", "python", "platform", "processor", "cores")
        key = (*(run[name] for name in names), *sorted(run["packages"].items()))
        # A run with unknown code is comparable with no other, but its records may disagree.
        own = () if _is_known(run) else (position,)
        groups.setdefault((*key, own), []).append(position)
    return [(key[0], np.array(group)) for key, group in groups.items()]


def _row(
    past: History, seen: NDArray[np.uint32], cell: int, line: str, groups: list[NDArray[np.int64]]
) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    runs = [int(run) for group in groups for run in group if past.outcomes[run, cell] != ABSENT]
    words = {run: _words(int(seen[run, cell])) for run in runs}
    for run in runs:
        counts.update(words[run])
    runs = [run for run in runs if words[run]]
    most = counts.most_common(1)[0][0]
    newest = max(groups, key=lambda group: int(group[-1]))
    facts = past.cells.iloc[cell]
    return {
        "id": facts["id"],
        "case": facts["case"],
        "target": facts["target"],
        "op": facts["op"],
        "line": line,
        "outcomes": dict(counts.most_common()),
        "runs": len(runs),
        "others": sum(words[run] != [most] for run in runs),
        "places": len(groups),
        "first": past.runs.at[min(runs), "run"],
        "last": past.runs.at[max(runs), "run"],
        "last_day": past.runs.at[max(runs), "day"],
        "commit": past.runs.at[int(newest[-1]), "commit"],
        "example": _example([int(run) for run in newest if words.get(int(run))], words, past),
    }


def _words(bits: int) -> list[str]:
    return [
        outcome.value
        for code, outcome in enumerate(OUTCOMES)
        if bits >> code & 1 and outcome not in _NO_RESULT
    ]


def _example(runs: list[int], words: dict[int, list[str]], past: History) -> list[str]:
    last = runs[-1]
    if len(words[last]) > 1:
        return [str(past.runs.at[last, "run"])]
    other = next(run for run in reversed(runs) if words[run] != words[last])
    return [str(past.runs.at[run, "run"]) for run in (other, last)]
