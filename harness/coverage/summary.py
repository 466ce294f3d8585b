"""What cells executed of the vendors' lowering code, as plain data; imports no torch."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from harness.errors import ConformError
from harness.record.folder import write_atomically

SUMMARY_FILE = "coverage.json"
"""Name of the summary in a run folder."""

_VERSION = 2


class ExecutedBy(enum.StrEnum):
    """The cells that execute a piece of code; the first that applies."""

    CONCLUSIVE = "conclusive"
    """By a cell that passes and proves something."""
    VACUOUS = "vacuous"
    """Only by cells whose pass is vacuous, or by these and cells that do not pass."""
    NOT_PASSED = "not-passed"
    """Only by cells that do not pass: red, expected failures, unsupported."""
    ONCE = "once"
    """By no cell in particular: when a module is imported, or once in a process, behind a cache."""
    NEVER = "never"
    """By no cell."""


class FunctionCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """What cells execute of a function, without the functions that are defined in it.

    Attributes:
        name: qualified name.
        line: line of its ``def``.
        end: its last executable line.
        lines: number of its executable lines; the ``def`` is none of them.
        missing: its lines that no conclusive cell executes, by the cells that do.
        branches: number of its branches: pairs of a line and a possible next line.
        missing_branches: the branches that no conclusive cell takes.
        is_once: whether it was entered at an import, or behind a cache, as it is once in a process.
    """

    name: str
    line: int
    end: int
    lines: int
    missing: dict[ExecutedBy, list[int]] = {}
    branches: int = 0
    missing_branches: list[tuple[int, int]] = []
    is_once: bool = False

    @property
    def missing_lines(self) -> int:
        """Number of lines that no conclusive cell executes."""
        return sum(map(len, self.missing.values()))

    @property
    def executed_by(self) -> ExecutedBy:
        """The cells that execute its best line."""
        if self.missing_lines < self.lines:
            return ExecutedBy.CONCLUSIVE
        return next(kind for kind in ExecutedBy if self.missing.get(kind))


class FileCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """What cells execute of a file.

    Attributes:
        name: its path from the folder of its distribution.
        area: name of a backend, ``exir`` or ``pt2e``.
        functions: functions with executable lines, in the order of the file.
    """

    name: str
    area: str
    functions: list[FunctionCoverage] = []

    @property
    def missing_lines(self) -> int:
        """Number of lines that no conclusive cell executes."""
        return sum(each.missing_lines for each in self.functions)


class AreaTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of some files.

    Attributes:
        files: number of files that have functions.
        functions: number of functions by the cells that execute them.
        lines: number of lines by the cells that execute them.
        branches: number of branches.
        missing_branches: number of branches that no conclusive cell takes.
    """

    files: int
    functions: dict[ExecutedBy, int]
    lines: dict[ExecutedBy, int]
    branches: int
    missing_branches: int


class CoverageSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What the cells of a run execute of the lowering code.

    Attributes:
        version: of this format.
        cells: number of recorded cells by what they can prove: ``conclusive``, ``vacuous`` or
            ``not-passed``.
        packages: versions of the packages that hold the code.
        files: all files, by name.
    """

    version: int = _VERSION
    cells: dict[ExecutedBy, int] = {}
    packages: dict[str, str] = {}
    files: list[FileCoverage] = []

    def areas(self) -> list[str]:
        """Names of the areas."""
        return sorted({file.area for file in self.files})


def compute_totals(files: Iterable[FileCoverage]) -> AreaTotals:
    """Add up some files."""
    counted = [file for file in files if file.functions]
    functions: Counter[ExecutedBy] = Counter()
    lines: Counter[ExecutedBy] = Counter()
    branches = missing_branches = 0
    for each in (function for file in counted for function in file.functions):
        functions[each.executed_by] += 1
        lines[ExecutedBy.CONCLUSIVE] += each.lines - each.missing_lines
        lines.update({kind: len(missing) for kind, missing in each.missing.items()})
        branches += each.branches
        missing_branches += len(each.missing_branches)
    return AreaTotals(
        files=len(counted),
        functions={kind: functions[kind] for kind in ExecutedBy},
        lines={kind: lines[kind] for kind in ExecutedBy},
        branches=branches,
        missing_branches=missing_branches,
    )


def write_summary(folder: Path, summary: CoverageSummary) -> None:
    """Write the summary of a run."""
    write_atomically(folder / SUMMARY_FILE, msgspec.json.encode(summary))


def read_summary(folder: Path) -> CoverageSummary | None:
    """Read the summary of a run; None if it has none.

    Raises:
        ConformError: it is damaged or of another version.
    """
    path = folder / SUMMARY_FILE
    try:
        found = msgspec.json.decode(path.read_bytes(), type=CoverageSummary)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise ConformError(f"{path}: {error}") from error
    if found.version != _VERSION:
        raise ConformError(f"{path} has version {found.version}; this program reads {_VERSION}")
    return found
