"""History: a folder of runs as one table of cells by nights. Data only; nothing is rendered.

::

    past = history.load("runs")       # reads each run once, later its compact copy
    past.runs, past.cells             # a row a run, a row a cell
    past.outcomes, past.metric(name)  # arrays, runs by cells
    history.trends(past)              # per day and target
    history.steps(past)               # where a metric changed its level, with the commit range
    history.flaky(past)               # same code, environment and seed, different outcome
    history.first_bad(past)           # since when a red cell is red

pandas, numpy and pyarrow are imported with this package, so ``import reports`` does not import
it. See docs/history.md for what each word means.
"""

from __future__ import annotations

from reports.history.broken import first_bad
from reports.history.changes import LevelChange, change_points
from reports.history.flakiness import flaky, incomparable
from reports.history.steps import METRICS, Metric, step_groups, steps
from reports.history.store import ABSENT, OUTCOMES, History, load
from reports.history.trend import trends

__all__ = [
    "ABSENT",
    "METRICS",
    "OUTCOMES",
    "History",
    "LevelChange",
    "Metric",
    "change_points",
    "first_bad",
    "flaky",
    "incomparable",
    "load",
    "step_groups",
    "steps",
    "trends",
]
