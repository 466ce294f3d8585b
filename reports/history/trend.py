"""Trends: results of each target, day by day, with every outcome counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.errors import UsageError
from reports.history.store import ABSENT, OUTCOMES, History
from reports.outcome import CellOutcome
from reports.summary import Totals
from reports.tables import column

_SUMS = ["seconds", "program_bytes", "delegates", "delegated_nodes", "undelegated_nodes"]
_NOT_RUN = OUTCOMES.index(CellOutcome.NOT_RUN)
_COUNTED = ["cells", "rated", "conclusive", "passed", "red"]
# Contribution of one cell of each outcome to each number, as summary.Totals counts it.
_WEIGHTS = np.array(
    [[getattr(Totals("", Counter([each])), name) for name in _COUNTED] for each in OUTCOMES]
)


def trends(past: History, *, by: str = "day") -> pd.DataFrame:
    """Make a table with a row per day (or run), line and target, in time order.

    The runs of a day on one line count together, each cell once with its newest record of that
    day: a second run of some targets adds to the first, and a killed run does not hide it.

    Args:
        past: a history.
        by: ``"day"`` (UTC) or ``"run"``.

    Returns:
        ``day``, ``run`` (the newest of the day), ``started`` (of that run), ``line``, ``commit``,
        ``target``, ``runs`` and ``incomplete`` (runs of the day that have cells of the target,
        and such runs that did not finish or lack records), ``cells``, ``rated`` (all but the
        unsupported), ``conclusive`` (passed, red, or failed as predicted), ``passed``,
        ``pass_rate`` (passed / rated; NaN if nothing is conclusive), ``red``, a column for
        each outcome as in :func:`reports.tables.totals`, ``appeared`` and ``disappeared`` (cells,
        against the day before that has the target, on the line), and sums over the cells:
        ``seconds``, ``program_bytes``, ``delegates``, ``delegated_nodes``, ``undelegated_nodes``.

    Raises:
        UsageError: ``by`` is neither.
    """
    if by not in ("day", "run"):
        raise UsageError(f"trends by {by!r}: there are day and run")
    names, codes = np.unique(past.cells["target"].to_numpy(dtype=object), return_inverse=True)
    past.read(*_SUMS)
    sums = {name: past.metric(name) for name in _SUMS}
    whole = past.runs["complete"].to_numpy()
    before: dict[str, NDArray[np.bool_]] = {}
    rows: list[dict[str, Any]] = []
    for (_, line), runs in past.runs.groupby([by, "line"], sort=False):
        where = runs.index.to_numpy()
        picked, outcomes = _newest(past.outcomes, where)
        there = outcomes != ABSENT
        counts = _count(codes[there], outcomes[there], len(names))
        known = before.get(str(line), np.zeros_like(there))
        appeared = np.bincount(codes[there & ~known], minlength=len(names))
        gone = np.bincount(codes[known & ~there], minlength=len(names))
        # A target that is missing this time is compared with its next results.
        here = counts.any(axis=1)[codes]
        before[str(line)] = np.where(here, there, known)
        gone = np.where(counts.any(axis=1), gone, 0)
        last = runs.iloc[-1]
        added = {
            name: _sum(values[picked, np.arange(len(codes))], there, codes, len(names))
            for name, values in sums.items()
        }
        present = {
            run: np.bincount(codes[past.outcomes[run] != ABSENT], minlength=len(names)) > 0
            for run in where
        }
        for at, target in enumerate(names):
            if not counts[at].any():
                continue
            numbers = dict(zip(_COUNTED, (counts[at] @ _WEIGHTS).tolist(), strict=True))
            conclusive = numbers["conclusive"]
            mine = [run for run in where if present[run][at]]
            rows.append({
                "day": last["day"],
                "run": last["run"],
                "started": last["started"],
                "line": line,
                "commit": last["commit"],
                "target": target,
                "runs": len(mine),
                "incomplete": sum(not whole[run] for run in mine),
                **numbers,
                "pass_rate": numbers["passed"] / numbers["rated"] if conclusive else np.nan,
                **dict(zip(map(column, OUTCOMES), counts[at].tolist(), strict=True)),
                "appeared": int(appeared[at]),
                "disappeared": int(gone[at]),
                **{name: values[at] for name, values in added.items()},
            })  # fmt: skip
    return pd.DataFrame(rows)


def _newest(
    outcomes: NDArray[np.uint8], runs: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Find the run whose result counts for each cell, and the outcome."""
    picked = np.full(outcomes.shape[1], runs[0])
    word = outcomes[runs[0]].copy()
    for run in runs[1:]:
        new = outcomes[run]
        # A run without a record of the cell does not replace a run with one.
        better = (new != ABSENT) & ((new != _NOT_RUN) | (word == ABSENT))
        picked[better], word[better] = run, new[better]
    return picked, word


def _count(
    codes: NDArray[np.int64], outcomes: NDArray[np.uint8], targets: int
) -> NDArray[np.int64]:
    width = len(OUTCOMES)
    flat = np.bincount(codes * width + outcomes, minlength=targets * width)
    return flat.reshape(targets, width)


def _sum(
    values: NDArray[np.float64], there: NDArray[np.bool_], codes: NDArray[np.int64], targets: int
) -> NDArray[np.float64]:
    kept = np.where(there & np.isfinite(values), values, 0.0)
    return np.bincount(codes, weights=kept, minlength=targets).astype(np.float64)
