"""A row per cell: all of them, the red ones, the slowest, the largest."""

from __future__ import annotations

import math
from typing import Any

from harness.record.cell import Cell
from harness.record.run import Run
from reports import facts, summary
from reports.outcome import CellOutcome
from reports.summary import RunSummary
from reports.tables.lazy import Frame, pandas

_COLUMNS = [
    "case", "op", "suite", "target", "backend", "recipe", "status", "outcome", "severity", "red",
    "counted", "stage", "error", "runtime", "delegates", "delegated_nodes", "undelegated_nodes",
    "nothing_delegated", "outputs", "conclusive_share", "vacuous_reason", "max_abs", "sqnr_db",
    "bound_used", "problem", "seconds", "overhead", "memory", "program_bytes", "constant_bytes",
    "duplicate_constant_bytes", "planned_memory", "first_seconds", "steady_seconds",
    "limitation", "link", "tags",
    "seed", "worker", "merged_part", "repro",
]  # fmt: skip


def frame(run: Run) -> Frame:
    """A row per record, indexed by cell id, in the order the cells ended.

    ``outcome`` splits ``passed`` by whether anything was delegated. ``severity`` is
    of the worst output of a mismatch, expected or not; missing in older records. ``max_abs`` and
    ``bound_used`` are the largest over the outputs, ``sqnr_db`` the smallest, NaN if any output
    has NaN or there is no output (``outputs`` tells the two apart). ``conclusive_share`` is the
    share of elements that the best constant gets wrong, for the output with the largest share;
    missing in older records. ``vacuous_reason`` is the case's reason for a vacuous pass.
    ``seconds_<stage>`` has the stages. ``memory`` is the peak of all stages in bytes,
    ``memory_<stage>`` has the stages; missing where it was not measured. ``constant_bytes`` is the
    part of ``program_bytes`` that holds constants, ``duplicate_constant_bytes`` the part of these
    that is stored more than once; ``planned_memory`` is the planned bytes; ``first_seconds`` and
    ``steady_seconds`` are times of single calls of the program on the host. ``counted`` is False
    for a record of a cell that also has a worse record.
    """
    counted = {id(row.cell) for row in RunSummary.from_run(run).rows if row.cell is not None}
    records = [_record(cell, counted=id(cell) in counted) for cell in run.cells]
    stages = dict.fromkeys(f"seconds_{name}" for cell in run.cells for name in cell.stages)
    held = dict.fromkeys(f"memory_{name}" for cell in run.cells for name in cell.memory)
    index = pandas().Index([cell.id for cell in run.cells], name="id", dtype="str")
    return pandas().DataFrame(records, columns=[*_COLUMNS, *stages, *held], index=index)


def _record(cell: Cell, *, counted: bool) -> dict[str, Any]:
    backend, _, recipe = cell.target.partition(":")
    outcome = CellOutcome.from_cell(cell)
    worst = summary.worst_output(cell)
    numbers = {
        "max_abs": summary.worst_max_abs(cell),
        "sqnr_db": summary.worst_sqnr(cell),
        "bound_used": summary.worst_bound_used(cell),
    }
    return {
        "case": cell.case,
        "op": cell.op,
        "suite": cell.suite,
        "target": cell.target,
        "backend": backend,
        "recipe": recipe,
        "status": cell.status.value,
        "outcome": outcome.value,
        "severity": None if cell.severity is None else cell.severity.value,
        "red": outcome.is_red,
        "counted": counted,
        "stage": cell.stage,
        "error": cell.error,
        "runtime": cell.runtime,
        "delegates": cell.delegation.delegates,
        "delegated_nodes": cell.delegation.delegated_nodes,
        "undelegated_nodes": cell.delegation.undelegated_nodes,
        "nothing_delegated": cell.nothing_delegated,
        "outputs": len(cell.numerics),
        "conclusive_share": _number(cell.conclusive_share),
        "vacuous_reason": cell.vacuous_reason or None,
        "problem": worst.problem if worst else None,
        "seconds": cell.seconds,
        "overhead": facts.overhead(cell),
        "memory": _number(cell.peak_memory),
        "program_bytes": cell.program_bytes,
        "constant_bytes": _number(cell.constant_bytes),
        "duplicate_constant_bytes": _number(cell.duplicate_constant_bytes),
        "planned_memory": sum(cell.planned_memory) if cell.planned_memory else None,
        "first_seconds": _number(cell.first_seconds),
        "steady_seconds": _number(cell.steady_seconds),
        "limitation": cell.limitation.reason if cell.limitation else None,
        "link": cell.limitation.link if cell.limitation else None,
        "tags": " ".join(cell.tags),
        "seed": cell.seed,
        "worker": cell.worker,
        "merged_part": cell.merged_part,
        "repro": cell.repro,
        **{name: _number(value) for name, value in numbers.items()},
        **{f"seconds_{name}": value for name, value in cell.stages.items()},
        **{f"memory_{name}": float(value) for name, value in cell.memory.items()},
    }


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def failures(run: Run) -> Frame:
    """Red cells, worst first, with the columns of :func:`frame`."""
    cells = [row.cell for row in RunSummary.from_run(run).failures if row.cell is not None]
    table = frame(run)
    # By position: the id of a cell with several records is not unique.
    where = {id(cell): position for position, cell in enumerate(run.cells)}
    return table.iloc[[where[id(cell)] for cell in cells]]


def slowest(run: Run, limit: int = 50) -> Frame:
    """The slowest cells, slowest first; times in seconds.

    Raises:
        ValueError: ``limit`` is not positive.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}")
    records = []
    for row in RunSummary.from_run(run).slowest(limit):
        assert row.cell is not None
        stage = summary.slowest_stage(row.cell) or ("", math.nan)
        records.append({
            "id": row.id, "target": row.target, "op": row.op, "outcome": row.outcome.value,
            "seconds": row.cell.seconds, "overhead": facts.overhead(row.cell),
            "slowest_stage": stage[0], "stage_seconds": stage[1],
        })  # fmt: skip
    columns = ["id", "target", "op", "outcome", "seconds", "overhead", "slowest_stage",
               "stage_seconds"]  # fmt: skip
    return pandas().DataFrame(records, columns=columns).set_index("id")


def largest(run: Run, limit: int = 50) -> Frame:
    """The cells with the highest peak memory, largest first; ``memory`` is the peak in bytes.

    Raises:
        ValueError: ``limit`` is not positive.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}")
    records = []
    for row in RunSummary.from_run(run).largest(limit):
        assert row.cell is not None
        stage = summary.largest_stage(row.cell)
        assert stage is not None
        records.append((row.id, row.target, row.op, row.outcome.value, stage[1], stage[0],
                        row.cell.seconds))  # fmt: skip
    columns = ["id", "target", "op", "outcome", "memory", "largest_stage", "seconds"]
    return pandas().DataFrame(records, columns=columns).set_index("id")


def not_run(run: Run) -> Frame:
    """Expected cells without a record; :func:`frame` does not have them."""
    missing = [row for row in RunSummary.from_run(run).rows if row.cell is None]
    records = [(row.id, row.case, row.op, row.suite, row.target) for row in missing]
    columns = ["id", "case", "op", "suite", "target"]
    return pandas().DataFrame(records, columns=columns).set_index("id")
