"""Snapshot: what a comparison needs of a run, one :class:`CellFacts` a cell.

A loaded run becomes one with :func:`take`; a stored baseline is one on disk
(:mod:`reports.comparison.baseline`). Cells with several records are in it once, with the worst.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from harness.record.cell import CacheOrigin, Cell, Status
from harness.record.host import Environment
from harness.record.run import Run, RunInfo
from harness.record.severity import Severity
from reports import facts, text
from reports.numbers import was_lowered, worst
from reports.outcome import Outcome, words
from reports.summary import Row, Summary, worst_bound_used, worst_sqnr

_ERROR = 300


class OutputFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One output of one call: SQNR in dB, share of its bound used, and the SQNR in dB against
    the float model before quantization, where there is one. Rounded, so that a run and the
    baseline made of it are equal."""

    call: int
    output: int
    sqnr_db: float
    bound_used: float
    model_sqnr_db: float | None = None


class CellFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One cell as it counts. ``seconds`` is None where times were not kept, or are of another run,
    which ``cached`` then names; ``error`` and ``limitation`` are one line each."""

    case: str
    target: str
    outcome: Outcome
    op: str = ""
    suite: str = ""
    seed: int = 0
    stage: str = ""
    error: str = ""
    limitation: str = ""
    runtime: str = "none"
    delegates: int = 0
    delegated_nodes: int = 0
    undelegated_nodes: int = 0
    delegated_ops: dict[str, int] = {}
    undelegated_ops: dict[str, int] = {}
    outputs: list[OutputFacts] = []
    program_bytes: int = 0
    planned_memory: int = 0
    seconds: float | None = None
    merged_part: str | None = None
    cached: CacheOrigin | None = None
    severity: Severity | None = None

    @property
    def words(self) -> str:
        """The words of the outcome, and of the severity where there is one."""
        return words(self.outcome, self.severity)

    @property
    def executed(self) -> bool:
        """Whether a program ran, whatever came of it."""
        return self.runtime != "none"

    @property
    def lowered(self) -> bool:
        """Whether it got as far as a lowered program."""
        return was_lowered(self) or self.executed or self.outcome is Outcome.LOWERED

    @property
    def worst_bound_used(self) -> float | None:
        """The largest error / bound over the outputs; NaN if any is; None without outputs."""
        return worst(max, [item.bound_used for item in self.outputs])

    @property
    def repro(self) -> str:
        """The command that runs this cell again."""
        named = Cell(
            case=self.case,
            target=self.target,
            status=Status.UNAVAILABLE,
            suite=self.suite,
            seed=self.seed,
        )
        return named.repro


class Snapshot(msgspec.Struct, kw_only=True):
    """A run as comparisons see it.

    ``cells`` are keyed by cell id; ``incomplete`` says why the run is incomplete, a line each;
    ``has_times`` is False where times were not kept; ``stored`` marks a baseline file, whose
    gaps were accepted when it was made.
    """

    name: str
    info: RunInfo
    cells: dict[str, CellFacts]
    incomplete: list[str] = []
    has_times: bool = True
    stored: bool = False

    def environment(self, cell: CellFacts) -> Environment:
        """Where a cell ran: in a merged run that of its part."""
        return facts.place(self.info, cell.merged_part)

    @property
    def environments(self) -> list[Environment]:
        """Those of the parts of a merged run, else the one."""
        return [part.environment for part in self.info.merged_from] or [self.info.environment]

    @property
    def targets(self) -> list[str]:
        """All targets that have cells, in the order of the cells."""
        return list(dict.fromkeys(cell.target for cell in self.cells.values()))


def take(run: Run | Summary | Snapshot) -> Snapshot:
    """The snapshot of a loaded run; a snapshot stays what it is."""
    if isinstance(run, Snapshot):
        return run
    found = Summary.of(run)
    run = found.run
    if found.repeated:
        # Which of several records counts must not depend on the order they stand in.
        ordered = sorted(run.cells, key=_canonical)
        found = Summary(Run(path=run.path, info=run.info, cells=ordered, damage=run.damage))
    return Snapshot(
        name=facts.title(run),
        info=run.info,
        cells={row.id: _facts(row, run.info.seed) for row in found.rows},
        incomplete=[text.line(reason, _ERROR) for reason in found.incompleteness],
    )


def _canonical(cell: Cell) -> tuple[Any, ...]:
    used, sqnr = worst_bound_used(cell), worst_sqnr(cell)
    undefined = any(value is not None and math.isnan(value) for value in (used, sqnr))
    numbers = (math.inf, math.inf) if undefined else (used or 0.0, -(sqnr or 0.0))
    return (*numbers, cell.seconds, cell.to_json())


def _facts(row: Row, seed: int) -> CellFacts:
    cell = row.cell
    if cell is None:
        return CellFacts(
            case=row.case,
            target=row.target,
            outcome=row.outcome,
            op=row.op,
            suite=row.suite,
            seed=seed,
        )
    taken = cell.delegation
    return CellFacts(
        case=row.case,
        target=row.target,
        outcome=row.outcome,
        op=row.op,
        suite=row.suite,
        seed=cell.seed,
        stage=text.line(cell.stage or "", 80),
        error=text.line(cell.error or "", _ERROR),
        limitation=text.line(cell.limitation.reason, _ERROR) if cell.limitation else "",
        runtime=cell.runtime,
        delegates=taken.delegates,
        delegated_nodes=taken.delegated_nodes,
        undelegated_nodes=taken.undelegated_nodes,
        delegated_ops=taken.delegated_ops,
        undelegated_ops=taken.undelegated_ops,
        outputs=[
            OutputFacts(
                call=item.call,
                output=item.output,
                sqnr_db=round(item.sqnr_db, 2),
                bound_used=float(f"{item.bound_used:.4g}"),
                model_sqnr_db=None if item.model_sqnr_db is None else round(item.model_sqnr_db, 2),
            )
            for item in cell.numerics
        ],
        program_bytes=cell.program_bytes,
        planned_memory=sum(cell.planned_memory),
        seconds=None if cell.cached else cell.seconds,
        merged_part=cell.merged_part,
        cached=cell.cached,
        severity=cell.severity,
    )
