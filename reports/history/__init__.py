"""History: results of cells over all runs in a folder, as tables.

::

    past = history.load("runs")       # reads each run once, then its compact copy
    past.runs, past.cells             # a row per run, a row per cell
    past.outcomes, past.metric(name)  # arrays, runs × cells
    history.trends(past)              # per day and target
    history.steps(past)               # lasting changes of a metric, with the commit range
    history.flaky(past)               # different outcomes with the same code, environment and seed
    history.first_bad(past)           # the first bad run of each red cell

This package imports pandas, numpy and pyarrow, so ``import reports`` does not import it.
docs/history.md defines the terms.
"""

from __future__ import annotations

from reports.history.broken import first_bad
from reports.history.changes import LevelChange, change_points
from reports.history.flakiness import count_incomparable, flaky
from reports.history.steps import METRICS, SeriesMetric, group_steps, steps
from reports.history.store import ABSENT, OUTCOMES, History, load
from reports.history.trend import trends

__all__ = [
    "ABSENT",
    "METRICS",
    "OUTCOMES",
    "History",
    "LevelChange",
    "SeriesMetric",
    "change_points",
    "count_incomparable",
    "first_bad",
    "flaky",
    "group_steps",
    "load",
    "steps",
    "trends",
]
