"""Models of a run: a row a target with what the program is made of, what lowering and executing it
cost, and where it errs; held against another run where one is given."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.record.cell import Cell, is_model
from harness.record.run import Run
from reports import facts, text
from reports.outcome import Outcome
from reports.summary import Row, Summary

LOWERING = ("export", "quantize", "to_edge", "transform", "lower", "to_executorch", "ship",
            "serialize")  # fmt: skip
_EXECUTION = ("run",)

NOTE = (
    "Lowering is from export to the serialized program. Peaks are the most that these stages held "
    "above what the process held as the cell began. The first call is that of a loaded program, "
    "steady the median of a few further ones: on this host, so that an emulated or a reference "
    "runtime says nothing of a device. Stored twice are equal constants of 4 KiB and more."
)


OTHER_HOST = "Times and peaks are not compared: the runs are of different hosts."


@dataclass(frozen=True)
class Figure:
    """A number of a cell, spelled.

    Attributes:
        now: its value; empty where it is not known.
        before: that of the other run, where it differs by more than it does by itself.
        is_worse: whether that is for the worse; None where it is neither.
    """

    now: str
    before: str = ""
    is_worse: bool | None = None


@dataclass(frozen=True)
class Measure:
    """A column of numbers.

    Attributes:
        group: what it is a number of.
        name: its head.
        value: of a cell; None where it is not known.
        spell: with its unit.
        noise: by which share two runs of the same code may differ.
        is_timed: whether it depends on the host.
        is_better: whether more is better; None where that is neither good nor bad.
    """

    group: str
    name: str
    value: Callable[[Cell], float | None]
    spell: Callable[[float], str]
    noise: float = 0.0
    is_timed: bool = False
    is_better: bool | None = False

    def figure(self, cell: Cell | None, before: Cell | None) -> Figure:
        """Of a cell, against the same cell of another run."""
        now = None if cell is None else self.value(cell)
        old = None if before is None else self.value(before)
        shown = "" if now is None else self.spell(now)
        if now is None or old is None or abs(now - old) <= self.noise * abs(old):
            return Figure(shown)
        spelled = self.spell(old)
        if spelled == shown:
            return Figure(shown)
        worse = None if self.is_better is None else (now < old) == self.is_better
        return Figure(shown, spelled, worse)


def _lowered(cell: Cell) -> bool:
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


# A shared host makes the same work take half as long again.
_TIME, _HELD = 0.5, 0.1

LEFT_OVER = "Left over"
MEASURES = (
    Measure("Delegation", "Delegates",
            lambda cell: cell.delegation.delegates if _lowered(cell) else None, _count,
            is_better=None),
    Measure("Delegation", LEFT_OVER,
            lambda cell: cell.delegation.undelegated_nodes if _lowered(cell) else None, _count),
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
        was: how it ended in the other run, where that was otherwise.
        is_new: the other run does not have it.
        runtime: who executed it; empty for nobody.
        reasons: why nodes were left over, with the operators that it is said of.
        figures: one for each of :data:`MEASURES`.
        diverges: the first node that leaves the oracle, or why it is not known; else empty.
        diverged: the same in the other run, where it was otherwise.
    """

    row: Row
    was: Outcome | None
    is_new: bool
    runtime: str
    reasons: tuple[tuple[str, str], ...]
    figures: tuple[Figure, ...]
    diverges: str
    diverged: str

    @property
    def named(self) -> Iterator[tuple[str, Figure]]:
        """Each number with its name, those that are known."""
        pairs = zip(MEASURES, self.figures, strict=True)
        return ((measure.name, figure) for measure, figure in pairs if figure.now)


@dataclass(frozen=True)
class Models:
    """All models of a run.

    Attributes:
        cases: those of each architecture.
        against: name of the other run; empty for none.
        gone: ids of models that only the other run has.
        times_differ: the other run is of another host, and its times and peaks are not compared.
    """

    cases: dict[str, list[Model]]
    against: str = ""
    gone: tuple[str, ...] = ()
    times_differ: bool = False

    @property
    def count(self) -> int:
        """How many cells."""
        return sum(map(len, self.cases.values()))


def models(found: Summary, against: Summary | None = None) -> Models:
    """The models of a run, by case in the order of their names.

    Args:
        found: the run.
        against: another run to hold it against.
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


def _rows(found: Summary) -> dict[str, Row]:
    """Cells of models; what has no record is one where another target's record says so."""
    known = {row.case for row in found.rows if row.cell is not None and is_model(row.cell.tags)}
    return {row.id: row for row in found.rows if row.case in known}


def _model(row: Row, before: Row | None, *, timed: bool, compared: bool) -> Model:
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
    """Where a cell diverges; not by how much, which differs with the host."""
    found = None if cell is None else cell.first_divergence
    return ("", "") if found is None else (found.node, found.op)


def _same_host(now: Run, row: Row, then: Run, before: Row | None) -> bool:
    if row.cell is None or before is None or before.cell is None:
        return False
    return facts.same_host(
        facts.place(now.info, row.cell.merged_part), facts.place(then.info, before.cell.merged_part)
    )


def groups() -> list[tuple[str, int]]:
    """What the measures are numbers of, with how many each has, for a head of two storeys."""
    return [(name, len(list(among))) for name, among in
            itertools.groupby(measure.group for measure in MEASURES)]  # fmt: skip


def spelled(figure: Figure) -> str:
    """A figure in a line of text: ``2.1 s (was 1.2 s)``."""
    return f"{figure.now} (was {figure.before})" if figure.before else figure.now
