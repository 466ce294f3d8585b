"""Compare what cells executed with the installed code, to find what no cell executes."""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import coverage

from harness.coverage.coverage_map import MAP_FILE, Arc, CoverageMap, list_lines
from harness.coverage.summary import (
    SUMMARY_FILE,
    CoverageSummary,
    ExecutedBy,
    FileCoverage,
    FunctionCoverage,
    read_summary,
    write_summary,
)
from harness.coverage.vendor_code import VendorFile, list_vendor_files
from harness.errors import ConformError
from harness.record.cell import Cell, Status
from harness.record.folder import load
from harness.vendors.versions import installed_version

# What single cells can be, the best first.
_BY_CELLS = (ExecutedBy.CONCLUSIVE, ExecutedBy.VACUOUS, ExecutedBy.NOT_PASSED)


def load_summary(folder: Path) -> CoverageSummary:
    """Read the summary of a run; compute and write it if it is not of the run's map.

    Raises:
        ConformError: the run has no map, or one that cannot be read.
    """
    path = folder / MAP_FILE
    if not _is_newer(path, folder / SUMMARY_FILE):
        with suppress(ConformError) if path.exists() else nullcontext():
            if (found := read_summary(folder)) is not None:
                return found
    with CoverageMap(path) as recorded:
        found = summarize(recorded, load(folder).cells)
    write_summary(folder, found)
    return found


def read_conclusive_arcs(folder: Path) -> dict[str, set[Arc]]:
    """Return the arcs that conclusive cells of a recorded run execute, by name of the file.

    Raises:
        ConformError: the run has no map, or one that cannot be read.
    """
    with CoverageMap(folder / MAP_FILE) as recorded:
        kinds = {cell.id: classify(cell) for cell in load(folder).cells}
        return _collect_arcs(recorded, kinds)[0][ExecutedBy.CONCLUSIVE]


def _is_newer(path: Path, other: Path) -> bool:
    """Whether a file was changed after another; False if one of them does not exist."""
    exist = path.exists() and other.exists()
    return exist and path.stat().st_mtime > other.stat().st_mtime


def summarize(recorded: CoverageMap, cells: Iterable[Cell]) -> CoverageSummary:
    """Summarize a map.

    Args:
        recorded: the map.
        cells: records of the run; the map may lack some, and other cells of the map are ignored.
    """
    kinds = {cell.id: classify(cell) for cell in cells}
    arcs, counts = _collect_arcs(recorded, kinds)
    files = list_vendor_files()
    once: defaultdict[str, set[int]] = defaultdict(set)
    for name, line in recorded.read_once():
        once[name].add(line)
    report = _report(files, arcs[ExecutedBy.CONCLUSIVE])
    lines = {
        kind: {name: list_lines(found) for name, found in arcs[kind].items()}
        for kind in (ExecutedBy.VACUOUS, ExecutedBy.NOT_PASSED)
    }
    found = []
    for file in files:
        weaker = {kind: lines[kind].get(file.name, set()) for kind in lines}
        functions = list(_read_functions(report.get(file.name, {}), weaker, once[file.name]))
        found.append(FileCoverage(name=file.name, area=file.area, functions=functions))
    return CoverageSummary(cells=dict(counts), packages=find_installed_versions(files), files=found)


def classify(cell: Cell) -> ExecutedBy:
    """Return what a cell can prove of the code that it executes."""
    if cell.status is not Status.PASSED:
        return ExecutedBy.NOT_PASSED
    return ExecutedBy.CONCLUSIVE if cell.is_conclusive else ExecutedBy.VACUOUS


def _collect_arcs(
    recorded: CoverageMap, kinds: Mapping[str, ExecutedBy]
) -> tuple[dict[ExecutedBy, dict[str, set[Arc]]], Counter[ExecutedBy]]:
    """Return the arcs that cells of each kind execute, by file, and the number of these cells."""
    bits = {kind: 1 << number for number, kind in enumerate(_BY_CELLS)}
    by_arcs: defaultdict[int, int] = defaultdict(int)
    counts: Counter[ExecutedBy] = Counter()
    for cell, ids in recorded.read_cells():
        kind = kinds.get(cell)
        if kind is not None:
            counts[kind] += 1
            for number in ids:
                by_arcs[number] |= bits[kind]
    found: dict[ExecutedBy, dict[str, set[Arc]]] = {kind: defaultdict(set) for kind in _BY_CELLS}
    for number, name, arcs in recorded.read_arcs():
        for kind, bit in bits.items():
            if by_arcs[number] & bit:
                found[kind][name] |= arcs
    return found, counts


def _report(files: list[VendorFile], executed: Mapping[str, set[Arc]]) -> dict[str, Any]:
    """Return coverage.py's report of each file, by its name."""
    paths = {file.name: str(file.path) for file in files}
    cover = coverage.Coverage(data_file=None, config_file=False, branch=True, messages=False)
    data = cover.get_data()
    data.add_arcs({paths[name]: arcs for name, arcs in executed.items() if name in paths})
    data.touch_files(paths.values())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        cover.json_report(morfs=list(paths.values()), outfile=str(path))
        reported = json.loads(path.read_bytes())["files"]
    by_path = {str(Path(name).resolve()): found for name, found in reported.items()}
    resolved = {name: str(Path(path).resolve()) for name, path in paths.items()}
    return {name: by_path[path] for name, path in resolved.items() if path in by_path}


def _read_functions(
    report: Mapping[str, Any], weaker: Mapping[ExecutedBy, set[int]], entered: set[int]
) -> Iterator[FunctionCoverage]:
    """Yield the functions of a file.

    Args:
        report: coverage.py's report.
        weaker: lines that cells of the weaker kinds execute.
        entered: first lines of functions that are executed once in a process.
    """
    before = 0
    for name, of in report.get("functions", {}).items():
        begin, lines = of["start_line"], of["executed_lines"] + of["missing_lines"]
        if not name or not lines:  # the module itself
            continue
        # A function is entered at its first decorator, which is above the ``def``.
        is_once = begin in entered or any(before < line <= min(lines) for line in entered)
        rest = ExecutedBy.ONCE if is_once else ExecutedBy.NEVER
        before = max(lines)
        missing: defaultdict[ExecutedBy, list[int]] = defaultdict(list)
        for line in of["missing_lines"]:
            kind = next((kind for kind, lines in weaker.items() if line in lines), rest)
            missing[kind].append(line)
        yield FunctionCoverage(
            name=name,
            line=begin,
            end=max(lines),
            lines=len(lines),
            missing=dict(missing),
            branches=len(of["executed_branches"]) + len(of["missing_branches"]),
            missing_branches=[(begin, end) for begin, end in of["missing_branches"]],
            is_once=is_once,
        )


def find_installed_versions(files: Iterable[VendorFile]) -> dict[str, str]:
    """Return the installed versions of the packages that hold files."""
    packages = {file.name.partition("/")[0] for file in files}
    return {package: installed_version(package) for package in sorted(packages)}
