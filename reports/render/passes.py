"""Compare cells of targets with extra or omitted passes with cells of the plain target."""

from __future__ import annotations

from collections.abc import Iterator

from harness.record.cell import Cell
from harness.record.run import Run
from harness.record.target import Target, cell_id, is_target
from reports import text
from reports.summary import CellRow, RunSummary, worst_bound_used, worst_sqnr

HEADER = ("Case", "Target and passes", "Outcome", "Delegates", "Fallback nodes", "Bytes", "SQNR",
          "Bound used", "Operators changed", "Violated properties")  # fmt: skip
"""A single value holds without and with the passes; ``A → B`` is without and with."""

NUMBERS = HEADER[3:8]

_OPS_SHOWN = 6
_KEPT = ("none", "not checked")


def rows(run: Run | RunSummary) -> list[tuple[str, ...]]:
    """The rows of the table: one for each cell that the run also has without its passes.

    Cells with violated properties come first, cells in which nothing changed last.
    """
    return sorted(_rows(run), key=lambda row: (row[-1] in _KEPT, " → " not in "".join(row[2:-1])))


def _rows(run: Run | RunSummary) -> Iterator[tuple[str, ...]]:
    found = RunSummary.from_run(run)
    known = {row.id: row for row in found.rows if row.cell is not None}
    for row in known.values():
        if not is_target(row.target):
            continue
        target = Target.parse(row.target)
        without = known.get(cell_id(row.case, _without(target)))
        if target.passes and without is not None:
            yield _row(without, row, target)


def _without(target: Target) -> Target:
    """The target without its added passes; if it only omits passes, the target with all passes."""
    left_out = tuple(each for each in target.passes if each[0] == "-")
    if left_out == target.passes:
        return target.base
    return Target(target.backend, target.recipe, left_out)


def _row(without: CellRow, row: CellRow, target: Target) -> tuple[str, ...]:
    before, after = without.cell, row.cell
    assert before is not None
    assert after is not None
    base = _without(target)
    return (
        row.case,
        " ".join([str(base), *target.passes[len(base.passes) :]]),
        _both(without.words, row.words),
        _both(str(before.delegation.delegates), str(after.delegation.delegates)),
        _both(str(before.delegation.undelegated_nodes), str(after.delegation.undelegated_nodes)),
        _both(_bytes(before), _bytes(after)),
        _both(text.decibels(worst_sqnr(before)), text.decibels(worst_sqnr(after))),
        _both(text.measure(worst_bound_used(before)), text.measure(worst_bound_used(after))),
        _describe_changed_ops(after),
        "; ".join(f"{one.name}: {one.detail}" for one in after.properties if one.holds is False)
        or _KEPT[not after.properties],
    )


def _both(before: str, after: str) -> str:
    return after if before == after else f"{before} → {after}"


def _bytes(cell: Cell) -> str:
    return text.size(cell.program_bytes) if cell.program_bytes else "–"


def _describe_changed_ops(cell: Cell) -> str:
    changed = [f"{op} {before} → {after}" for op, (before, after) in cell.changed_ops.items()]
    more = len(changed) - _OPS_SHOWN
    return ", ".join([*changed[:_OPS_SHOWN], *([f"{more} more"] if more > 0 else [])]) or "none"
