"""Choose mutants, and the cells that run for each."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from harness.coverage.coverage_map import CoverageMap
from harness.coverage.lookup import CellIndex, CodePlace
from harness.coverage.mutation.mutant import FileMutants, Mutant, make_mutant_id
from harness.coverage.mutation.operators import list_mutants
from harness.coverage.summary import CoverageSummary, ExecutedBy
from harness.coverage.unexecuted import classify
from harness.coverage.vendor_code import list_vendor_files
from harness.errors import UsageError
from harness.record.cell import Cell

_LONGEST_SECONDS = 10.0
"""Cells that took longer when they were recorded are not run."""


@dataclass
class MutantPool:
    """All mutants of some files.

    Attributes:
        executed: mutants in statements that a cell executes.
        files: numbers of all mutants, by file.
    """

    executed: list[Mutant] = field(default_factory=list)
    files: dict[str, FileMutants] = field(default_factory=dict)

    def select(self, patterns: Sequence[str]) -> list[Mutant]:
        """Return the executed mutants in files that match a glob or contain a text; all without.

        Raises:
            UsageError: no file matches.
        """
        names = {name for name in self.files if _matches(name, patterns)}
        if not names:
            raise UsageError(f"no file of these matches {', '.join(patterns)}")
        return [mutant for mutant in self.executed if mutant.file in names]


def select_cells(target: str, cells: Iterable[Cell], summary: CoverageSummary) -> list[Cell]:
    """Return the cells that can run for a target.

    Args:
        target: an area, or a backend and recipe whose cells alone run.
        cells: all cells of the run.
        summary: of the same run.

    Raises:
        UsageError: there is no such area, or no such cell.
    """
    area, _, recipe = target.partition(":")
    if area not in summary.areas():
        raise UsageError(f"no code of {area} is recorded; there is {', '.join(summary.areas())}")
    found = [cell for cell in cells if not recipe or cell.target.partition("+")[0] == target]
    if not found:
        raise UsageError(f"the run has no cells on {target}")
    return found


def list_pool(area: str, cells: CellChooser, summary: CoverageSummary) -> MutantPool:
    """List the mutants of an area.

    Args:
        area: its name.
        cells: has the recorded cells.
        summary: of the same run.
    """
    outlines = {file.name: file for file in summary.files}
    pool = MutantPool()
    for file in list_vendor_files():
        if file.area != area:
            continue
        outline = outlines.get(file.name)
        once = {each.name for each in (outline.functions if outline else ()) if each.is_once}
        numbers: Counter[str] = Counter()
        for mutant in list_mutants(file.path.read_bytes(), file.name, area):
            if cells.is_executed(mutant):
                pool.executed.append(mutant)
                numbers["executed"] += 1
            else:
                numbers["once" if mutant.function in once else "unexecuted"] += 1
        pool.files[file.name] = FileMutants(**numbers)
    return pool


def draw_sample(mutants: Sequence[Mutant], size: int, seed: int) -> list[Mutant]:
    """Draw mutants at random, the kinds of change in turn, so that no kind dominates.

    A larger sample begins with the smaller one. The order is that of a digest of seed and id, so
    that samples of later runs have the same mutants as far as cells execute them.

    Args:
        mutants: all mutants.
        size: how many to draw; 0 for all.
        seed: of the order.
    """
    by_operator: defaultdict[str, list[Mutant]] = defaultdict(list)
    for mutant in sorted(mutants, key=lambda mutant: make_mutant_id(seed, mutant.id)):
        by_operator[mutant.operator].append(mutant)
    rounds = itertools.zip_longest(*(by_operator[name] for name in sorted(by_operator)))
    drawn = [mutant for each in rounds for mutant in each if mutant is not None]
    return drawn[:size] if size else drawn


class CellChooser:
    """Chooses the cells that run for a mutant.

    Args:
        recorded: the map of a run; open as long as the chooser is used.
        cells: records of the run, of the targets that run.
        given: choose these cells for each mutant.
    """

    def __init__(
        self, recorded: CoverageMap, cells: Iterable[Cell], given: Sequence[Cell] = ()
    ) -> None:
        self._given = list(given)
        self._records = {
            cell.id: cell
            for cell in cells
            if not cell.status.is_red and cell.seconds <= _LONGEST_SECONDS
        }
        self._index = CellIndex(recorded, self._records)

    def is_executed(self, mutant: Mutant) -> bool:
        """Whether a cell executes the changed statement."""
        return self._index.is_executed(_find_place(mutant))

    def choose(self, mutant: Mutant, limit: int) -> tuple[list[Cell], int]:
        """Return the cells to run, the cheapest and most different first, and how many there are.

        Cells that go the same way through the function are a group. The groups take turns, small
        ones first; in a group the targets take turns, and of each target the suites, the cheapest
        cell of each first.

        Args:
            mutant: the mutant.
            limit: the most cells; 0 for all.
        """
        if self._given:
            return self._given[: limit or None], len(self._given)
        groups = self._index.group_cells(_find_place(mutant), mutant.begin, mutant.end_line)
        ordered = _take_turns(
            self._order([self._records[name] for name in group])
            for group in sorted(groups, key=lambda group: (len(group), min(group)))
        )
        return (ordered[:limit] if limit else ordered), len(ordered)

    def _order(self, cells: Sequence[Cell]) -> list[Cell]:
        by_target: defaultdict[str, defaultdict[str, list[Cell]]]
        by_target = defaultdict(lambda: defaultdict(list))
        for cell in sorted(cells, key=_rank):
            by_target[cell.target.partition("+")[0]][cell.suite].append(cell)
        return _take_turns(_take_turns(suites.values()) for suites in by_target.values())


def _take_turns(queues: Iterable[Sequence[Cell]]) -> list[Cell]:
    """Return the first of each queue, then the second of each, and so on."""
    rounds = itertools.zip_longest(*queues)
    return [cell for each in rounds for cell in each if cell is not None]


def _rank(cell: Cell) -> tuple[bool, float, str]:
    return classify(cell) is not ExecutedBy.CONCLUSIVE, cell.seconds, cell.id


def _find_place(mutant: Mutant) -> CodePlace:
    return CodePlace(mutant.file, mutant.first, mutant.last)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(each in name or fnmatchcase(name, each) for each in patterns)
