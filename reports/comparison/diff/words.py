"""Texts of a diff that all renderers share."""

from __future__ import annotations

from reports import text
from reports.comparison.diff.compare import Change, Diff
from reports.comparison.diff.kinds import ChangeKind


def headline(found: Diff) -> str:
    """One line: the number of compared cells, and of changes by kind."""
    counts = found.counts
    parts = [f"{counts[kind]:,} {kind.label}" for kind in ChangeKind if counts[kind]]
    shown = ", ".join(parts) or "nothing changed"
    return f"{text.count(found.compared, 'cell')} compared: {shown}"


def describe_kinds(changes: list[Change]) -> str:
    """The number of changes by kind, worst first: ``3 newly failing, 1 fixed``."""
    kinds = [change.kind for change in changes]
    return ", ".join(f"{kinds.count(kind):,} {kind.label}" for kind in ChangeKind if kind in kinds)
