"""Words and figures of a comparison of releases, the same in all output formats."""

from __future__ import annotations

from reports import text
from reports.comparison.diff import Change, ChangeKind
from reports.comparison.releases.compare import BackendRow, Step
from reports.comparison.snapshot import CellFacts

COLUMNS = (
    "backend",
    "cells",
    "pass",
    "gained",
    "lost",
    "numerics −/+",
    "delegation −/+",
    "bytes",
    "lowering",
)
NOTE = (
    "The table counts cells that both releases have. gained: cells that pass only in the new "
    "release; lost: cells that passed only in the old one. numerics and delegation: cells that got "
    "worse / better by the thresholds of conform diff. bytes: size of all programs. lowering: "
    "median ratio of the lowering time of a cell, new to old, on the same host."
)


def row_figures(row: BackendRow) -> list[str]:
    """Format a row for :data:`COLUMNS`."""
    old, new = row.passing
    return [
        row.backend,
        f"{row.compared:,}",
        f"{old:,}" if old == new else f"{old:,} → {new:,}",
        _number(row.gained),
        _number(row.lost),
        _two(row.numerics),
        _two(row.delegation),
        _bytes(*row.bytes),
        "–" if row.lowering is None else f"{row.lowering:.2f}×",
    ]


def describe_move(before: CellFacts, after: CellFacts) -> str:
    """Describe a change between pass and failure, with its cause."""
    failing = after if before.outcome.is_pass else before
    why = failing.limitation or failing.error
    description = f"{_describe_end(before)} → {_describe_end(after)}"
    return f"{description}: {why}" if why else description


_BETTER = {
    ChangeKind.NEWLY_UNSUPPORTED: "newly supported",
    ChangeKind.DELEGATION_LOST: "delegation gained",
    ChangeKind.NUMERICS_WORSE: "numerics better",
    ChangeKind.BOUND_UP: "bound down",
    ChangeKind.QUALITY_WORSE: "quality better",
    ChangeKind.DELEGATES_UP: "fewer delegates",
    ChangeKind.BYTES_UP: "smaller",
    ChangeKind.PLANNED_MEMORY_UP: "less planned memory",
}


def describe_improvement(change: Change) -> tuple[str, str]:
    """Name and describe a change for the better, given as a change of the reverse diff."""
    name = _BETTER.get(change.kind, f"no longer {change.kind.label}")
    if change.ops:
        return name, f"delegated now: {text.calls(dict(change.ops))}"
    if change.old is None or change.new is None:
        return name, ""
    unit = f" {change.unit}" if change.unit else ""
    return name, f"{change.new:.6g} → {change.old:.6g}{unit}"


def summarize_step(step: Step) -> str:
    """Summarize a step in one sentence."""
    cells = sum(row.compared for row in step.rows)
    return (
        f"{text.count(cells, 'cell')} compared: {len(step.gained):,} newly passing, "
        f"{len(step.lost):,} newly failing"
    )


def _describe_end(cell: CellFacts) -> str:
    where = f" in {cell.stage}" if cell.stage and not cell.outcome.is_pass else ""
    return f"{cell.words}{where}"


def _number(value: int) -> str:
    return f"{value:,}" if value else "–"


def _two(values: tuple[int, int]) -> str:
    return " / ".join(map(_number, values)) if any(values) else "–"


def _bytes(old: int, new: int) -> str:
    if not old:
        return "–"
    percent = 100 * (new - old) / old
    return text.size(new) if old == new else f"{text.size(new)} ({percent:+.2f} %)"
