"""Find the cells that execute a place in the vendors' code."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass

from harness.coverage.coverage_map import Arc, CoverageMap
from harness.coverage.summary import CoverageSummary, FileCoverage
from harness.errors import UsageError

_PLACE = re.compile(
    r"(?P<file>[^:]+\.py)(?:::(?P<function>.+)|:(?P<first>\d+)(?:-(?P<last>\d+))?)?"
)


@dataclass(frozen=True)
class CodePlace:
    """Lines of a file.

    Attributes:
        file: its name in the map.
        first, last: the lines, the last one included; None for the whole file.
    """

    file: str
    first: int | None = None
    last: int | None = None

    def __str__(self) -> str:
        if self.first is None:
            return self.file
        return f"{self.file}:{self.first}" + ("" if self.first == self.last else f"-{self.last}")


def parse_place(text: str, summary: CoverageSummary) -> CodePlace:
    """Read ``FILE``, ``FILE:LINE``, ``FILE:LINE-LINE`` or ``FILE::FUNCTION``.

    Args:
        text: the place; the file may lack its first folders.
        summary: has the files and functions.

    Raises:
        UsageError: there is no such place, or several.
    """
    match = _PLACE.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not spelled FILE.py, FILE.py:LINE or FILE.py::FUNCTION")
    file = _find_file(match["file"], summary.files)
    if match["function"]:
        return _find_function(file, match["function"])
    if match["first"] is None:
        return CodePlace(file.name)
    first = int(match["first"])
    last = int(match["last"] or first)
    if not 0 < first <= last:
        raise UsageError(f"{text}: lines count from 1, and the first is not after the last")
    return CodePlace(file.name, first, last)


class CellIndex:
    """The cells of a map by the places that they execute.

    Args:
        recorded: the map; open as long as the index is used.
        cells: ids of the only cells to index; all if None.
    """

    def __init__(self, recorded: CoverageMap, cells: Container[str] | None = None) -> None:
        self._cells = {
            cell: frozenset(ids)
            for cell, ids in recorded.read_cells()
            if cells is None or cell in cells
        }
        self._read_arcs = functools.cache(lambda file: list(recorded.read_arcs(file)))
        self._arcs = {number for ids in self._cells.values() for number in ids}
        self._list_executed = functools.cache(self._list_executed_lines)

    def find_cells(self, places: Iterable[CodePlace]) -> set[str]:
        """Return the ids of the cells that execute a line of one of the places."""
        wanted = {number for place in places for number in self._find_arcs(place)}
        return {cell for cell, ids in self._cells.items() if not wanted.isdisjoint(ids)}

    def group_cells(self, place: CodePlace, first: int, last: int) -> list[set[str]]:
        """Return the cells that execute a line of a place, in groups that go the same way through
        some lines around it.

        Args:
            place: the place.
            first, last: the lines around it, of the same file.
        """
        wanted = set(self._find_arcs(place))
        ways = {
            number: frozenset(arc for arc in arcs if any(first <= line <= last for line in arc))
            for number, _, arcs in self._read_arcs(place.file)
            if number in wanted
        }
        groups: defaultdict[frozenset[Arc], set[str]] = defaultdict(set)
        for cell, ids in self._cells.items():
            for number in wanted & ids:
                groups[ways[number]].add(cell)
        return list(groups.values())

    def is_executed(self, place: CodePlace) -> bool:
        """Whether a cell executes a line of a place."""
        lines = self._list_executed(place.file)
        if place.first is None or place.last is None:
            return bool(lines)
        return not lines.isdisjoint(range(place.first, place.last + 1))

    def _find_arcs(self, place: CodePlace) -> Iterator[int]:
        """Yield the ids of the arcs that have a line of a place."""
        for number, _, arcs in self._read_arcs(place.file):
            # An arc with a negative end leaves the function that begins there.
            if (
                place.first is None
                or place.last is None
                or any(place.first <= line <= place.last for arc in arcs for line in arc)
            ):
                yield number

    def _list_executed_lines(self, file: str) -> set[int]:
        found = (arcs for number, _, arcs in self._read_arcs(file) if number in self._arcs)
        return {line for arcs in found for arc in arcs for line in arc}


def _find_file(text: str, files: Collection[FileCoverage]) -> FileCoverage:
    found = [file for file in files if f"/{file.name}".endswith(f"/{text.lstrip('/')}")]
    if not found:
        raise UsageError(
            f"no recorded file ends with {text}; conform coverage show --json - lists them"
        )
    if len(found) > 1:
        names = ", ".join(file.name for file in found[:3])
        raise UsageError(f"{len(found)} files end with {text}: {names}")
    return found[0]


def _find_function(file: FileCoverage, name: str) -> CodePlace:
    found = [each for each in file.functions if each.name == name or each.name.endswith(f".{name}")]
    if len(found) != 1:
        names = ", ".join(each.name for each in found or file.functions)
        what = "several functions" if found else "no function"
        raise UsageError(f"{file.name} has {what} {name}; it has {names}")
    return CodePlace(file.name, found[0].line, found[0].end)
