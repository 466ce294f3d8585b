"""Compare each release with the previous one, in one row per backend."""

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
# The time of a single cell is too noisy; the median over a backend is not. The runtime of a cell
# follows from its delegation.
_LEFT_OUT = (ChangeKind.TIME_UP, ChangeKind.RUNTIME_CHANGED)
_STAGE = "lower"
# Times below this are mostly noise.
_LEAST_SECONDS = 0.02


@dataclass(frozen=True)
class BackendRow:
    """Changes of one backend between two releases, over its cells in both.

    Attributes:
        backend: its name.
        compared: number of cells.
        passing: number of passing cells before and now.
        gained: number of cells that pass now but did not before.
        lost: number of cells that passed before but do not now.
        numerics: number of cells with worse and with better numerics, by the thresholds of a diff.
        delegation: number of cells that lost and that gained delegated calls.
        bytes: size of all programs that both releases have, before and now.
        lowering: median ratio of the time of ``lower``, now to before, over cells that ran on the
            same host; None without such cells.
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
    """Changes from one release to the next.

    Attributes:
        before: the older release.
        after: the newer one.
        rows: one row per backend, in the order of the cells.
        gained: cells that pass now but did not before, as pairs of before and now.
        lost: cells that passed before but do not now, as such pairs.
        worse: other changes for the worse, as in a diff.
        better: other changes for the better: changes for the worse in the reverse diff.
        remarks: notes about parts that could not be compared.
    """

    before: str
    after: str
    rows: list[BackendRow]
    gained: list[tuple[CellFacts, CellFacts]]
    lost: list[tuple[CellFacts, CellFacts]]
    worse: list[Change]
    better: list[Change]
    remarks: list[str]


def find_release(run: Run) -> str:
    """Find the release of ExecuTorch that a run tested.

    Raises:
        UsageError: the run has no release, or is merged from runs of several releases.
    """
    places: list[Environment] = [part.environment for part in run.info.merged_from]
    found = {place.packages.get(PACKAGE, "") for place in places or [run.info.environment]}
    if len(found) > 1:
        raise UsageError(
            f"{run.path} is merged from runs with {PACKAGE} {', '.join(sorted(found))}"
        )
    release = found.pop()
    if not release:
        raise UsageError(f"{run.path} does not record its version of {PACKAGE}")
    return release


def compare_releases(runs: Sequence[Run], names: Sequence[str] = ()) -> list[Step]:
    """Compare runs of several releases, each with the previous one in the given order.

    Args:
        runs: at least two.
        names: names of the runs; by default their releases.

    Raises:
        UsageError: there are fewer than two runs, or a run does not record its release.
    """
    if len(runs) < 2:
        raise UsageError("cannot compare a single release; name two or more runs")
    labels = list(names) or [find_release(run) for run in runs]
    return [
        _step(a, b, old, new) for (a, old), (b, new) in pairwise(zip(runs, labels, strict=True))
    ]


def _step(before: Run, after: Run, old: str, new: str) -> Step:
    forwards, backwards = diff(before, after), diff(after, before)
    pairs = _pairs(forwards)
    changed = [(a, b) for a, b in pairs if a.outcome.is_pass != b.outcome.is_pass]
    gained = [(a, b) for a, b in changed if b.outcome.is_pass]
    lost = [(a, b) for a, b in changed if a.outcome.is_pass]
    named = {_id(b) for _, b in changed}
    ratios = _compare_lowering(before, after)
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
    """Cells that both runs have and that at least one of them executed or tried to."""
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


def _compare_lowering(before: Run, after: Run) -> dict[str, list[float]]:
    """Ratios of the time of ``lower``, now to before, of each cell by backend."""
    if not facts.same_host(before.info.environment, after.info.environment):
        return {}
    found: dict[str, list[float]] = {}
    then = {cell.id: cell for cell in before.cells}
    for now, old in _pair_timed_cells(after, then):
        found.setdefault(now.target.partition(":")[0], []).append(
            now.stages[_STAGE] / old.stages[_STAGE]
        )
    return found


def _pair_timed_cells(after: Run, then: dict[str, Cell]) -> Iterator[tuple[Cell, Cell]]:
    for cell in after.cells:
        old = then.get(cell.id)
        if old is not None and min(
            cell.stages.get(_STAGE, 0), old.stages.get(_STAGE, 0)
        ) >= _LEAST_SECONDS:  # fmt: skip
            yield cell, old
