"""A diff in words, the same in every renderer."""

from __future__ import annotations

from reports import text
from reports.comparison.diff.compare import Change, Diff
from reports.comparison.diff.kinds import Kind


def headline(found: Diff) -> str:
    """One line: how many cells were compared and what changed."""
    counts = found.counts
    parts = [f"{counts[kind]:,} {kind.label}" for kind in Kind if counts[kind]]
    shown = ", ".join(parts) or "nothing changed"
    return f"{text.count(found.compared, 'cell')} compared: {shown}"


def kinds_of(changes: list[Change]) -> str:
    """``3 newly failing, 1 fixed``: the kinds among some changes, worst first."""
    kinds = [change.kind for change in changes]
    return ", ".join(f"{kinds.count(kind):,} {kind.label}" for kind in Kind if kind in kinds)
