"""RunSnapshot: the part of a run that comparisons use, one :class:`CellFacts` for each cell.

:func:`take_snapshot` makes one of a loaded run; a stored baseline is one in a file
(:mod:`reports.comparison.baseline`). Of several records of a cell the worst one counts.
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
from reports.outcome import CellOutcome, words
from reports.summary import CellRow, RunSummary, worst_bound_used, worst_sqnr

_ERROR = 300


class OutputFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One output of one call: SQNR in dB, bound used, and for a quantized cell the SQNR in dB
    against the float model. Rounded, so that a run equals the baseline made from it."""

    call: int
    output: int
    sqnr_db: float
    bound_used: float
    model_sqnr_db: float | None = None


class MetricFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of a cell: the figure of the float model, and of the target."""

    model: float
    value: float


class CellFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One cell in a comparison. ``seconds`` is None in a baseline without times and for a result
    of an earlier run, which ``cached`` names; ``error`` and ``limitation`` are one line each.
    ``quality_db`` is the SQNR of the quantized graph against the float model, in dB; None where it
    was not measured. ``metrics`` are those of the case, by name."""

    case: str
    target: str
    outcome: CellOutcome
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
    quality_db: float | None = None
    metrics: dict[str, MetricFacts] = {}

    @property
    def words(self) -> str:
        """The label of the outcome, with the severity if there is one."""
        return words(self.outcome, self.severity)

    @property
    def executed(self) -> bool:
        """Whether a program was executed, with any outcome."""
        return self.runtime != "none"

    @property
    def lowered(self) -> bool:
        """Whether there was a lowered program."""
        return was_lowered(self) or self.executed or self.outcome is CellOutcome.LOWERED

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


class RunSnapshot(msgspec.Struct, kw_only=True):
    """A run in a comparison.

    ``cells`` are keyed by cell id; ``incomplete`` has the reasons why the run is incomplete, one
    line each; ``has_times`` is False for a baseline without times; ``stored`` marks a baseline
    file, which was accepted even if it is incomplete.
    """

    name: str
    info: RunInfo
    cells: dict[str, CellFacts]
    incomplete: list[str] = []
    has_times: bool = True
    stored: bool = False

    def environment(self, cell: CellFacts) -> Environment:
        """The environment in which a cell ran; in a merged run, the environment of its part."""
        return facts.cell_environment(self.info, cell.merged_part)

    @property
    def environments(self) -> list[Environment]:
        """The environments of the parts of a merged run, else the one of the run."""
        return [part.environment for part in self.info.merged_from] or [self.info.environment]

    @property
    def targets(self) -> list[str]:
        """All targets that have cells, in the order of the cells."""
        return list(dict.fromkeys(cell.target for cell in self.cells.values()))


def take_snapshot(run: Run | RunSummary | RunSnapshot) -> RunSnapshot:
    """Make a snapshot of a loaded run; a snapshot is returned unchanged."""
    if isinstance(run, RunSnapshot):
        return run
    found = RunSummary.from_run(run)
    run = found.run
    if found.repeated:
        # The record that counts must not depend on the order of the records.
        ordered = sorted(run.cells, key=_canonical)
        found = RunSummary(Run(path=run.path, info=run.info, cells=ordered, damage=run.damage))
    return RunSnapshot(
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


def _facts(row: CellRow, seed: int) -> CellFacts:
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
        quality_db=None if cell.quality is None else round(cell.quality.sqnr_db, 2),
        metrics={
            item.name: MetricFacts(
                model=float(f"{item.model:.4g}"), value=float(f"{item.value:.4g}")
            )
            for item in cell.metrics
        },
    )
