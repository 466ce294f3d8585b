"""The models of a run: delegation, program size, cost of lowering and execution, first diverging
node, for each target; compared with another run if one is given."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.record.cell import Cell, is_model
from harness.record.run import Run
from reports import facts, text
from reports.outcome import CellOutcome
from reports.summary import CellRow, RunSummary

LOWERING = ("export", "quantize", "to_edge", "transform", "lower", "to_executorch", "ship",
            "serialize")  # fmt: skip
_EXECUTION = ("run",)

NOTE = (
    "Lowering covers all stages from export to the serialized program. Peaks are memory above the "
    "process's memory at the start of the cell. First call is the first call of the loaded "
    "program, steady the median of later calls, both on this host: times of an emulated or a "
    "reference runtime do not predict times on a device. Stored twice counts equal constants of "
    "4 KiB and more."
)


OTHER_HOST = "Times and peaks are not compared because the runs come from different hosts."


@dataclass(frozen=True)
class Figure:
    """A formatted number of a cell.

    Attributes:
        now: its value; empty if it is not known.
        before: its value in the other run, if the difference is larger than the noise.
        is_worse: whether the value became worse; None if it is neither worse nor better.
    """

    now: str
    before: str = ""
    is_worse: bool | None = None


@dataclass(frozen=True)
class Measure:
    """A column of numbers.

    Attributes:
        group: heading of the group of columns.
        name: heading of the column.
        value: returns the number of a cell; None if it is not known.
        spell: formats the number with its unit.
        noise: relative difference that two runs of the same code may have.
        is_timed: whether the number depends on the host.
        is_better: whether more is better; None if it is neither better nor worse.
    """

    group: str
    name: str
    value: Callable[[Cell], float | None]
    spell: Callable[[float], str]
    noise: float = 0.0
    is_timed: bool = False
    is_better: bool | None = False

    def figure(self, cell: Cell | None, before: Cell | None) -> Figure:
        """The number of a cell, compared with the same cell of another run."""
        now = None if cell is None else self.value(cell)
        old = None if before is None else self.value(before)
        shown = "" if now is None else self.spell(now)
        if now is None or old is None or abs(now - old) <= self.noise * abs(old):
            return Figure(shown)
        format_figure = self.spell(old)
        if format_figure == shown:
            return Figure(shown)
        worse = None if self.is_better is None else (now < old) == self.is_better
        return Figure(shown, format_figure, worse)


def _is_lowered(cell: Cell) -> bool:
    return cell.program_bytes > 0


def _seconds(cell: Cell) -> float | None:
    spent = [cell.stages[name] for name in LOWERING if name in cell.stages]
    return sum(spent) if spent else None


def _peak(*stages: str) -> Callable[[Cell], float | None]:
    return lambda cell: max((cell.memory[name] for name in stages if name in cell.memory),
                            default=None)  # fmt: skip


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _size(value: float) -> str:
    return text.size(round(value))


def _memory(value: float) -> str:
    return text.memory(round(value))


# On a shared host the same work may take 50 % longer.
_TIME, _HELD = 0.5, 0.1

FALLBACK = "Fallback nodes"
MEASURES = (
    Measure("Delegation", "Delegates",
            lambda cell: cell.delegation.delegates if _is_lowered(cell) else None, _count,
            is_better=None),
    Measure("Delegation", FALLBACK,
            lambda cell: cell.delegation.undelegated_nodes if _is_lowered(cell) else None, _count),
    Measure("Program", "Bytes", lambda cell: cell.program_bytes or None, _size),
    Measure("Program", "Constants", lambda cell: cell.constant_bytes, _size, is_better=None),
    Measure("Program", "Stored twice", lambda cell: cell.duplicate_constant_bytes, _size),
    Measure("Lowering", "Lowering time", _seconds, text.seconds, _TIME, is_timed=True),
    Measure("Lowering", "Lowering peak", _peak(*LOWERING), _memory, _HELD, is_timed=True),
    Measure("Execution", "Execution peak", _peak(*_EXECUTION), _memory, _HELD, is_timed=True),
    Measure("Execution", "First call", lambda cell: cell.first_seconds, text.seconds, _TIME,
            is_timed=True),
    Measure("Execution", "Steady", lambda cell: cell.steady_seconds, text.seconds, _TIME,
            is_timed=True),
)  # fmt: skip


@dataclass(frozen=True)
class Model:
    """A model on a target.

    Attributes:
        row: the cell.
        was: the outcome in the other run, if it differs.
        is_new: whether the other run does not have the cell.
        runtime: the runtime that executed it; empty if none did.
        reasons: the partitioner's reasons for fallback nodes, with their operators.
        figures: one number for each of :data:`MEASURES`.
        diverges: the first diverging node, or why it is not known; empty if there is none.
        diverged: the same in the other run, if it differs.
    """

    row: CellRow
    was: CellOutcome | None
    is_new: bool
    runtime: str
    reasons: tuple[tuple[str, str], ...]
    figures: tuple[Figure, ...]
    diverges: str
    diverged: str

    @property
    def named(self) -> Iterator[tuple[str, Figure]]:
        """The name and value of each number that is known."""
        pairs = zip(MEASURES, self.figures, strict=True)
        return ((measure.name, figure) for measure, figure in pairs if figure.now)


@dataclass(frozen=True)
class Models:
    """All models of a run.

    Attributes:
        cases: the models by case.
        against: name of the other run; empty if there is none.
        gone: ids of models that only the other run has.
        times_differ: whether times and peaks are not compared because the hosts differ.
    """

    cases: dict[str, list[Model]]
    against: str = ""
    gone: tuple[str, ...] = ()
    times_differ: bool = False

    @property
    def count(self) -> int:
        """Number of cells."""
        return sum(map(len, self.cases.values()))


def collect_models(found: RunSummary, against: RunSummary | None = None) -> Models:
    """Collect the models of a run, sorted by name.

    Args:
        found: the run.
        against: another run to compare with.
    """
    rows = _rows(found)
    old = {} if against is None else _rows(against)
    cases: dict[str, list[Model]] = {}
    times_differ = False
    for name, row in sorted(rows.items()):
        before = old.get(name)
        timed = against is not None and _same_host(found.run, row, against.run, before)
        times_differ |= before is not None and not timed
        model = _model(row, before, timed=timed, compared=against is not None)
        cases.setdefault(row.case, []).append(model)
    if against is None:
        return Models(cases)
    gone = tuple(name for name in old if name not in rows)
    return Models(cases, facts.title(against.run), gone, times_differ)


def _rows(found: RunSummary) -> dict[str, CellRow]:
    """The cells of models. A cell without a record counts if another target's record is a model."""
    known = {row.case for row in found.rows if row.cell is not None and is_model(row.cell.tags)}
    return {row.id: row for row in found.rows if row.case in known}


def _model(row: CellRow, before: CellRow | None, *, timed: bool, compared: bool) -> Model:
    cell = row.cell
    old = None if before is None else before.cell
    diverges = "" if cell is None else facts.divergence(cell)
    diverged = "" if old is None else facts.divergence(old)
    return Model(
        row=row,
        was=before.outcome if before is not None and before.outcome is not row.outcome else None,
        is_new=compared and before is None,
        runtime="" if cell is None or cell.runtime == "none" else text.line(cell.runtime, 40),
        reasons=() if cell is None else tuple((said, text.calls(ops)) for said, ops in
                                              facts.reasons(cell)),
        figures=tuple(
            measure.figure(cell, old if timed or not measure.is_timed else None)
            for measure in MEASURES
        ),
        diverges=diverges,
        diverged=diverged if before is not None and _place(old) != _place(cell) else "",
    )  # fmt: skip


def _place(cell: Cell | None) -> tuple[str, str]:
    """Where a cell diverges, without the error, which depends on the host."""
    found = None if cell is None else cell.first_divergence
    return ("", "") if found is None else (found.node, found.op)


def _same_host(now: Run, row: CellRow, then: Run, before: CellRow | None) -> bool:
    if row.cell is None or before is None or before.cell is None:
        return False
    here = facts.cell_environment(now.info, row.cell.merged_part)
    there = facts.cell_environment(then.info, before.cell.merged_part)
    return facts.same_host(here, there)


def measure_groups() -> list[tuple[str, int]]:
    """The groups of measures with their number of columns, for a two-row table head."""
    return [(name, len(list(among))) for name, among in
            itertools.groupby(measure.group for measure in MEASURES)]  # fmt: skip


def format_figure(figure: Figure) -> str:
    """Format a figure as text: ``2.1 s (was 1.2 s)``."""
    return f"{figure.now} (was {figure.before})" if figure.before else figure.now
