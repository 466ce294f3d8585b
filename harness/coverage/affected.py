"""Select the cells that a patch of ExecuTorch can affect, by what each executed."""

from __future__ import annotations

import bisect
import functools
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.coverage.coverage_map import CoverageMap
from harness.coverage.lookup import CellIndex, CodePlace
from harness.coverage.patches import FileChange, Reach, find_change, read_patch
from harness.coverage.summary import CoverageSummary, ExecutedBy, FileCoverage
from harness.coverage.unexecuted import classify
from harness.coverage.vendor_code import VendorFile, list_vendor_files
from harness.record.cell import Cell
from harness.record.target import SEVERAL, Target

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
        backends: backends all of whose cells these paths can affect.
    """

    cells: list[Cell] = field(default_factory=list)
    changes: list[FileChange] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    backends: list[str] = field(default_factory=list)

    @property
    def changes_code(self) -> bool:
        """Whether the patch changes code that can affect a program."""
        return bool(self.backends) or any(each.reach is not Reach.NONE for each in self.changes)

    def select_within(self, seconds: float) -> list[Cell]:
        """Return the first cells that take at most this long together; at least one."""
        ends = list(itertools.accumulate(cell.seconds for cell in self.cells))
        return self.cells[: max(1, bisect.bisect_right(ends, seconds))]


def find_affected_cells(
    patch: str | Sequence[str],
    recorded: CoverageMap,
    summary: CoverageSummary,
    cells: Iterable[Cell],
    find_backends: Callable[[Sequence[str]], Collection[str]] = lambda paths: (),
) -> AffectedCells:
    """Select the cells that a patch can affect.

    Args:
        patch: a unified diff; or paths of files that count as changed as a whole.
        recorded: the map of a run.
        summary: its summary.
        cells: its records.
        find_backends: names of the backends all of whose cells a change of paths can affect, which
            are no lowering code.

    Raises:
        UsageError: the patch cannot be read.
    """
    found = AffectedCells()
    cells = list(cells)
    files = {file.name: file for file in list_vendor_files()}
    outlines = {file.name: file for file in summary.files}
    finder, index = _PlaceFinder(files, outlines), CellIndex(recorded)
    groups: list[set[str]] = []
    for patched in read_patch(patch) if isinstance(patch, str) else patch:
        path = patched if isinstance(patched, str) else patched.path
        name, area = _find_file(path, files)
        if area is None:
            found.others.append(path)
            continue
        if isinstance(patched, str):
            change = FileChange(path, Reach.FILE, reason="the whole file is named")
        else:
            file = files.get(name)
            source = None if file is None else file.path.read_text(encoding="utf-8")
            change = find_change(patched, source)
        found.changes.append(change)
        groups += map(index.find_cells, finder.find_places(change, name, area))
    found.backends = sorted(find_backends(found.others))
    if found.backends:
        groups.append(
            {cell.id for cell in cells if not _list_backends(cell).isdisjoint(found.backends)}
        )
    found.cells = _sort(groups, {cell.id: cell for cell in cells})
    return found


def _list_backends(cell: Cell) -> set[str]:
    """Return the backends of a target; several where one program has delegates of several."""
    return set(Target.parse(cell.target).backend.split(SEVERAL))


class _PlaceFinder:
    """Finds the places that a change reaches."""

    def __init__(
        self, files: Mapping[str, VendorFile], outlines: Mapping[str, FileCoverage]
    ) -> None:
        self._files = files
        self._outlines = outlines

    @functools.cached_property
    def _sources(self) -> dict[str, str]:
        return {name: file.path.read_text(encoding="utf-8") for name, file in self._files.items()}

    def find_places(self, change: FileChange, name: str, area: str) -> list[list[CodePlace]]:
        """Return the places, in groups; of each group one cell at least should run.

        Args:
            change: the change, whose reach may become wider.
            name: name of the file in the map.
            area: its area.
        """
        outline = self._outlines.get(name)
        functions = [
            function
            for function in (outline.functions if outline else ())
            if any(f"{function.name}.".startswith(f"{each}.") for each in change.functions)
        ]
        if once := next((function for function in functions if function.is_once), None):
            change.widen(Reach.AREA, f"{once.name} is executed once in a process")
        if change.reach is Reach.AREA:
            members = [each for each, file in self._files.items() if file.area == area]
            return [[CodePlace(each) for each in members]]
        if change.reach is Reach.FILE:
            return [[CodePlace(each) for each in (name, *self._find_importers(name))]]
        return [[CodePlace(name, function.line, function.end)] for function in functions]

    def _find_importers(self, name: str) -> list[str]:
        """Return the files that import a module, by their text."""
        parts = name.removesuffix(".py").removesuffix("/__init__").split("/")
        package, module = ".".join(parts[:-1]), parts[-1]
        dotted = re.escape(".".join(parts))
        pattern = re.compile(
            rf"^\s*(?:import {dotted}\b|from {dotted} import"
            rf"|from {re.escape(package)} import.*\b{module}\b|from \.+{module} import)",
            re.M,
        )
        return [each for each, source in self._sources.items() if pattern.search(source)]


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


def _sort(groups: Sequence[set[str]], records: Mapping[str, Cell]) -> list[Cell]:
    """Return the cells of all groups: first the best one of each, then by duration."""

    def rank(cell: Cell) -> tuple[bool, float, str]:
        return classify(cell) is not ExecutedBy.CONCLUSIVE, cell.seconds, cell.id

    found = {cell: records[cell] for group in groups for cell in group if cell in records}
    first: dict[str, None] = {}
    for group in sorted(groups, key=len):
        members = [found[cell] for cell in group if cell in found]
        if members and first.keys().isdisjoint(group):
            first[min(members, key=rank).id] = None
    rest = sorted((cell for cell in found.values() if cell.id not in first), key=rank)
    return [*(found[cell] for cell in first), *rest]
