"""Diff of two runs, or of a run and a stored baseline: values, and renderers for them.

::

    from harness.record.folder import load
    from reports.comparison.diff import diff

    found = diff(load("runs/yesterday"), load("runs/today"))
    found.counts, found.environment, found.by_op(), found.select_kind(ChangeKind.NEWLY_FAILING)
"""

from __future__ import annotations

from reports.comparison.diff.compare import Change, Diff, diff, group_changes
from reports.comparison.diff.environment import EnvironmentChange
from reports.comparison.diff.kinds import ChangeKind, Thresholds
from reports.comparison.diff.signature import normalize_error, signature

__all__ = [
    "Change",
    "ChangeKind",
    "Diff",
    "EnvironmentChange",
    "Thresholds",
    "diff",
    "group_changes",
    "normalize_error",
    "signature",
]
