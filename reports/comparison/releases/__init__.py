"""Compare the same cells in several releases, each release with the previous one.

::

    from harness.record.folder import load
    from reports.comparison.releases import compare_releases

    for step in compare_releases([load("old"), load("new")]):
        step.before, step.after, step.rows, step.gained, step.lost
"""

from __future__ import annotations

from reports.comparison.releases.compare import BackendRow, Step, compare_releases, find_release

__all__ = ["BackendRow", "Step", "compare_releases", "find_release"]
