"""Releases held against each other: the same cells in several, one step from each to the next.

::

    from harness.record.folder import load
    from reports.comparison.releases import steps

    for step in steps([load("old"), load("new")]):
        step.before, step.after, step.rows, step.gained, step.lost
"""

from __future__ import annotations

from reports.comparison.releases.compare import BackendRow, Step, release_of, steps

__all__ = ["BackendRow", "Step", "release_of", "steps"]
