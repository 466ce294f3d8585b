"""Diff of two runs, or of a run against a stored baseline: plain values, and their renderers.

::

    from harness.record.folder import load
    from reports.comparison.diff import diff

    found = diff(load("runs/yesterday"), load("runs/today"))
    found.counts, found.environment, found.by_op(), found.of(Kind.NEWLY_FAILING)
"""

from __future__ import annotations

from reports.comparison.diff.compare import Change, Diff, diff, grouped
from reports.comparison.diff.environment import EnvironmentChange
from reports.comparison.diff.kinds import Kind, Thresholds
from reports.comparison.diff.signature import normalised, signature

__all__ = [
    "Change",
    "Diff",
    "EnvironmentChange",
    "Kind",
    "Thresholds",
    "diff",
    "grouped",
    "normalised",
    "signature",
]
