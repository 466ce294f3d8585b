"""What one release changed against the one before it, a row a backend; renderers are beside it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.errors import UsageError
from harness.record.cell import Cell
from harness.record.host import Environment
from harness.record.run import Run
from harness.vendors.versions import PACKAGE
from reports import facts
from reports.comparison.diff import Change, ChangeKind, Diff, diff
from reports.comparison.snapshot import CellFacts
from reports.outcome import CellOutcome

_NUMERICS = (ChangeKind.NUMERICS_WORSE, ChangeKind.BOUND_UP, ChangeKind.QUALITY_WORSE)
# Between two runs a single cell's clock tells nothing; the median of a backend's does. Who executes
# a cell follows from what is delegated.
_LEFT_OUT = (ChangeKind.TIME_UP, ChangeKind.RUNTIME_CHANGED)
_STAGE = "lower"
# Cells that lower in less say nothing of a release: the clock's own noise is as large.
_LEAST_SECONDS = 0.02


@dataclass(frozen=True)
class BackendRow:
    """What a step changed on one backend, in cells of it that both releases have.

    Attributes:
        backend: its name.
        compared: number of cells.
        passing: how many pass before and now.
        gained: pass now and did not.
        lost: passed and do not now.
        numerics: worse by the thresholds of a diff, and better.
        delegation: calls lost by the delegate in a cell, and gained.
        bytes: of all programs that both have, before and now.
        lowering: median of the ratios of the seconds of ``lower``, now to before, of cells that
            took it on one host; None where there is none.
    """

    backend: str
    compared: int
    passing: tuple[int, int]
    gained: int
    lost: int
    numerics: tuple[int, int]
    delegation: tuple[int, int]
    bytes: tuple[int, int]
    lowering: float | None


@dataclass(frozen=True)
class Step:
    """From one release to the next.

    Attributes:
        before: the older release.
        after: the newer one.
        rows: a backend each, in the order of the cells.
        gained: the cells that pass now and did not, as pairs of before and now.
        lost: those that passed and do not now.
        worse: what else got worse, as a diff has it.
        better: what else got better: what the reverse of the diff says got worse.
        remarks: what could not be compared.
    """

    before: str
    after: str
    rows: list[BackendRow]
    gained: list[tuple[CellFacts, CellFacts]]
    lost: list[tuple[CellFacts, CellFacts]]
    worse: list[Change]
    better: list[Change]
    remarks: list[str]


def release_of(run: Run) -> str:
    """The release of a run.

    Raises:
        UsageError: the run does not say, or is merged of several.
    """
    places: list[Environment] = [part.environment for part in run.info.merged_from]
    found = {place.packages.get(PACKAGE, "") for place in places or [run.info.environment]}
    if len(found) > 1:
        raise UsageError(f"{run.path} is merged of runs with {PACKAGE} {', '.join(sorted(found))}")
    release = found.pop()
    if not release:
        raise UsageError(f"{run.path} does not say which {PACKAGE} it ran with")
    return release


def steps(runs: Sequence[Run], names: Sequence[str] = ()) -> list[Step]:
    """The steps between runs of several releases, in the order in which they are given.

    Args:
        runs: at least two.
        names: what they are called; by default their releases.

    Raises:
        UsageError: there is one run only, or one does not say its release.
    """
    if len(runs) < 2:
        raise UsageError("one release alone cannot be compared; name two runs")
    called = list(names) or [release_of(run) for run in runs]
    return [
        _step(a, b, old, new) for (a, old), (b, new) in pairwise(zip(runs, called, strict=True))
    ]


def _step(before: Run, after: Run, old: str, new: str) -> Step:
    forwards, backwards = diff(before, after), diff(after, before)
    pairs = _pairs(forwards)
    describe_move = [(a, b) for a, b in pairs if a.outcome.is_pass != b.outcome.is_pass]
    gained = [(a, b) for a, b in describe_move if b.outcome.is_pass]
    lost = [(a, b) for a, b in describe_move if a.outcome.is_pass]
    named = {_id(b) for _, b in describe_move}
    ratios = _lowering(before, after)
    rows = [
        _row(backend, pairs, forwards, backwards, ratios)
        for backend in dict.fromkeys(b.target.partition(":")[0] for _, b in pairs)
    ]
    return Step(
        before=old,
        after=new,
        rows=rows,
        gained=gained,
        lost=lost,
        worse=[one for one in forwards.worse if one.id not in named and one.kind not in _LEFT_OUT],
        better=[
            one for one in backwards.worse if one.id not in named and one.kind not in _LEFT_OUT
        ],
        remarks=forwards.remarks,
    )


def _pairs(found: Diff) -> list[tuple[CellFacts, CellFacts]]:
    """The cells that both have, and that at least one of them tried."""
    return [
        (a, b)
        for name, b in found.after.cells.items()
        if (a := found.before.cells.get(name)) is not None
        and not {a.outcome, b.outcome} <= {CellOutcome.NOT_RUN, CellOutcome.UNAVAILABLE}
    ]


def _id(cell: CellFacts) -> str:
    return f"{cell.case}@{cell.target}"


def _row(
    backend: str,
    pairs: list[tuple[CellFacts, CellFacts]],
    forwards: Diff,
    backwards: Diff,
    ratios: dict[str, list[float]],
) -> BackendRow:
    own = [(a, b) for a, b in pairs if b.target.partition(":")[0] == backend]
    sized = [(a, b) for a, b in own if a.program_bytes and b.program_bytes]

    def cells(found: Diff, *kinds: ChangeKind) -> int:
        of = (
            one.id for one in found.select_kind(*kinds) if one.target.partition(":")[0] == backend
        )
        return len(set(of))

    return BackendRow(
        backend=backend,
        compared=len(own),
        passing=(sum(a.outcome.is_pass for a, _ in own), sum(b.outcome.is_pass for _, b in own)),
        gained=sum(b.outcome.is_pass and not a.outcome.is_pass for a, b in own),
        lost=sum(a.outcome.is_pass and not b.outcome.is_pass for a, b in own),
        numerics=(cells(forwards, *_NUMERICS), cells(backwards, *_NUMERICS)),
        delegation=(
            cells(forwards, ChangeKind.DELEGATION_LOST),
            cells(backwards, ChangeKind.DELEGATION_LOST),
        ),
        bytes=(sum(a.program_bytes for a, _ in sized), sum(b.program_bytes for _, b in sized)),
        lowering=statistics.median(ratios[backend]) if ratios.get(backend) else None,
    )


def _lowering(before: Run, after: Run) -> dict[str, list[float]]:
    """By backend, what lowering takes now relative to before, a ratio a cell."""
    if not facts.same_host(before.info.environment, after.info.environment):
        return {}
    found: dict[str, list[float]] = {}
    then = {cell.id: cell for cell in before.cells}
    for now, old in _timed(after, then):
        found.setdefault(now.target.partition(":")[0], []).append(
            now.stages[_STAGE] / old.stages[_STAGE]
        )
    return found


def _timed(after: Run, then: dict[str, Cell]) -> Iterator[tuple[Cell, Cell]]:
    for cell in after.cells:
        old = then.get(cell.id)
        if old is not None and min(
            cell.stages.get(_STAGE, 0), old.stages.get(_STAGE, 0)
        ) >= _LEAST_SECONDS:  # fmt: skip
            yield cell, old
