"""Select the cells that a patch of ExecuTorch can affect, by what each executed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.coverage.coverage_map import Arc, CoverageMap
from harness.coverage.patches import FileChange, Reach, find_change, read_patch
from harness.coverage.summary import CoverageSummary, ExecutedBy, FileCoverage
from harness.coverage.unexecuted import classify
from harness.coverage.vendor_code import VendorFile, list_vendor_files
from harness.record.cell import Cell

# Folders of ExecuTorch's repository have the package's name in front once they are installed.
_PREFIXES = ("executorch/", "")


@dataclass
class AffectedCells:
    """The cells that a patch can affect.

    Attributes:
        cells: records of the cells; the first ones execute together all that any executes of the
            patch, then the shortest come first.
        changes: what the patch changes in each file of the lowering code.
        others: paths of the patch that are no lowering code.
    """

    cells: list[Cell] = field(default_factory=list)
    changes: list[FileChange] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


def find_affected_cells(
    patch: str, recorded: CoverageMap, summary: CoverageSummary, cells: Iterable[Cell]
) -> AffectedCells:
    """Select the cells that a patch can affect.

    Args:
        patch: a unified diff.
        recorded: the map of a run.
        summary: its summary.
        cells: its records.

    Raises:
        UsageError: the patch cannot be read.
    """
    found = AffectedCells()
    files = {file.name: file for file in list_vendor_files()}
    outlines = {file.name: file for file in summary.files}
    once = recorded.read_once()
    index = _Index(recorded, outlines)
    places: list[set[str]] = []
    for patched in read_patch(patch):
        name, area = _find_file(patched.path, files)
        if area is None:
            found.others.append(patched.path)
            continue
        file = files.get(name)
        source = None if file is None else file.path.read_text(encoding="utf-8")
        change = find_change(patched, source)
        _widen_for_once(change, outlines.get(name), once)
        found.changes.append(change)
        places += index.select(change, name, area, files)
    records = {cell.id: cell for cell in cells}
    found.cells = _sort(places, records)
    return found


class _Index:
    """Cells by the arcs that they execute."""

    def __init__(self, recorded: CoverageMap, outlines: Mapping[str, FileCoverage]) -> None:
        self._outlines = outlines
        self._arcs: dict[str, list[tuple[int, set[Arc]]]] = {}
        for number, name, arcs in recorded.read_arcs():
            self._arcs.setdefault(name, []).append((number, arcs))
        self._cells = {cell: frozenset(ids) for cell, ids in recorded.read_cells()}

    def select(
        self, change: FileChange, name: str, area: str, files: Mapping[str, VendorFile]
    ) -> list[set[str]]:
        """Return the cells of each place that a change reaches."""
        if change.reach is Reach.NONE:
            return []
        if change.reach is Reach.AREA:
            members = [each for each, file in files.items() if file.area == area]
            return [self._select_files(members)]
        if change.reach is Reach.FILE:
            return [self._select_files([name, *_find_importers(name, files)])]
        outline = self._outlines.get(name)
        spans = [
            (function.line, function.end)
            for function in (outline.functions if outline else ())
            if any(
                function.name == changed or function.name.startswith(f"{changed}.")
                for changed in change.functions
            )
        ]
        return [self._select_lines(name, begin, end) for begin, end in spans]

    def _select_files(self, names: Iterable[str]) -> set[str]:
        return self._select({number for name in names for number, _ in self._arcs.get(name, ())})

    def _select_lines(self, name: str, begin: int, end: int) -> set[str]:
        return self._select(
            {
                number
                for number, arcs in self._arcs.get(name, ())
                if any(begin <= line <= end for arc in arcs for line in arc)
            }
        )

    def _select(self, wanted: set[int]) -> set[str]:
        return {cell for cell, ids in self._cells.items() if not wanted.isdisjoint(ids)}


def _find_file(path: str, files: Mapping[str, VendorFile]) -> tuple[str, str | None]:
    """Return the name of a path in the map, and its area; None for no lowering code.

    A new file has the area of the other files in its folder.
    """
    for prefix in _PREFIXES:
        name = f"{prefix}{path}"
        if name in files:
            return name, files[name].area
    if path.endswith(".py"):
        for prefix in _PREFIXES:
            folder = f"{prefix}{path}".rpartition("/")[0] + "/"
            for name, file in files.items():
                if name.rpartition("/")[0] + "/" == folder:
                    return f"{prefix}{path}", file.area
    return path, None


def _widen_for_once(
    change: FileChange, outline: FileCoverage | None, once: Collection[tuple[str, int]]
) -> None:
    """A function that is executed once in a process can affect every cell of its area."""
    if change.reach is not Reach.FUNCTIONS or outline is None:
        return
    for function in outline.functions:
        is_once = function.executed_by is ExecutedBy.ONCE or any(
            name == outline.name and function.line <= line <= function.end for name, line in once
        )
        if function.name in change.functions and is_once:
            change.widen(Reach.AREA, f"{function.name} is executed once in a process")


def _find_importers(name: str, files: Mapping[str, VendorFile]) -> list[str]:
    """Return the files that import a module, by their text."""
    parts = name.removesuffix(".py").removesuffix("/__init__").split("/")
    package, module = ".".join(parts[:-1]), parts[-1]
    dotted = re.escape(".".join(parts))
    pattern = re.compile(
        rf"^\s*(?:import {dotted}\b|from {dotted} import"
        rf"|from {re.escape(package)} import.*\b{module}\b|from \.+{module} import)",
        re.M,
    )
    return [
        each
        for each, file in files.items()
        if pattern.search(file.path.read_text(encoding="utf-8"))
    ]


def _sort(places: Sequence[set[str]], records: Mapping[str, Cell]) -> list[Cell]:
    """Return the cells of all places: first the best one of each place, then by duration."""

    def rank(cell: Cell) -> tuple[bool, float, str]:
        return classify(cell) is not ExecutedBy.CONCLUSIVE, cell.seconds, cell.id

    found = {cell: records[cell] for place in places for cell in place if cell in records}
    first: dict[str, None] = {}
    for place in sorted(places, key=len):
        members = [found[cell] for cell in place if cell in found]
        if members and first.keys().isdisjoint(place):
            first[min(members, key=rank).id] = None
    rest = sorted((cell for cell in found.values() if cell.id not in first), key=rank)
    return [*(found[cell] for cell in first), *rest]
