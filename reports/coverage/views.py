"""Rows of the coverage tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from harness.coverage.summary import (
    AreaTotals,
    CoverageSummary,
    ExecutedBy,
    FileCoverage,
    FunctionCoverage,
    compute_totals,
)
from harness.errors import UsageError
from reports import text

AREAS = {
    "exir": "exir and backends/transforms",
    "pt2e": "torchao's pt2e quantization",
}
"""Titles of the areas that are no backend."""

MEANINGS = {
    ExecutedBy.CONCLUSIVE: "executed by a cell that passes and proves something",
    ExecutedBy.VACUOUS: "executed only by vacuous passes, or by these and cells that do not pass",
    ExecutedBy.NOT_PASSED: "executed only by cells that do not pass: xfailed, unsupported, red",
    ExecutedBy.ONCE: "executed at an import, or once in a process behind a cache: by no cell in "
    "particular",
    ExecutedBy.NEVER: "executed by no cell",
}
LABELS = {
    ExecutedBy.CONCLUSIVE: "conclusive",
    ExecutedBy.VACUOUS: "vacuous only",
    ExecutedBy.NOT_PASSED: "not passed",
    ExecutedBy.ONCE: "once",
    ExecutedBy.NEVER: "never",
}
"""Headings of columns, and words of lists."""


@dataclass(frozen=True)
class AreaRow:
    """An area and its totals."""

    area: str
    title: str
    totals: AreaTotals

    @property
    def functions(self) -> float:
        """Share of functions that a conclusive cell executes."""
        return _share(self.totals.functions)

    @property
    def lines(self) -> float:
        """Share of lines that a conclusive cell executes."""
        return _share(self.totals.lines)

    @property
    def branches(self) -> float:
        """Share of branches that a conclusive cell takes."""
        return 1 - self.totals.missing_branches / max(1, self.totals.branches)


def list_areas(summary: CoverageSummary) -> list[AreaRow]:
    """One row per area, backends first."""
    names = sorted(summary.areas(), key=lambda area: (area in AREAS, area))
    return [
        AreaRow(
            name,
            AREAS.get(name, name),
            compute_totals(file for file in summary.files if file.area == name),
        )
        for name in names
    ]


def select_files(summary: CoverageSummary, area: str = "", pattern: str = "") -> list[FileCoverage]:
    """Files with lines that no conclusive cell executes, most of them first.

    Args:
        summary: the summary.
        area: only of this area.
        pattern: only files whose name contains this text or matches this glob.

    Raises:
        UsageError: there is no such area or file.
    """
    if area and area not in summary.areas():
        raise UsageError(f"no area {area}; there are {', '.join(summary.areas())}")
    found = [
        file
        for file in summary.files
        if area in ("", file.area)
        and (pattern in file.name or fnmatchcase(file.name, f"*{pattern}"))
    ]
    if not found:
        raise UsageError(f"no file matches {pattern!r}")
    return sorted(
        (file for file in found if file.missing_lines or pattern),
        key=lambda file: (-file.missing_lines, file.name),
    )


def select_functions(file: FileCoverage) -> list[FunctionCoverage]:
    """Functions with lines or branches that no conclusive cell executes, in the file's order."""
    return [each for each in file.functions if each.missing_lines or each.missing_branches]


def describe_function(function: FunctionCoverage) -> str:
    """What is missing of a function, in a line."""
    parts = []
    for kind in ExecutedBy:
        if lines := function.missing.get(kind):
            whole = len(lines) == function.lines
            parts.append(f"{LABELS[kind]}: {'all lines' if whole else text.number_ranges(lines)}")
    reached = {line for lines in function.missing.values() for line in lines}
    # Branches of lines that are not executed are missing for that reason.
    branches = [(a, b) for a, b in function.missing_branches if a not in reached]
    if branches:
        shown = ", ".join(f"{a}→{b if b > 0 else 'end'}" for a, b in branches)
        parts.append(f"branches never taken: {shown}")
    return "; ".join(parts)


def _share(counts: dict[ExecutedBy, int]) -> float:
    return counts[ExecutedBy.CONCLUSIVE] / max(1, sum(counts.values()))


def describe_cells(summary: CoverageSummary) -> str:
    """The recorded cells and packages, in a sentence."""
    counts: Iterable[str] = (
        f"{summary.cells.get(kind, 0):,} {words}"
        for kind, words in (
            (ExecutedBy.CONCLUSIVE, "conclusive"),
            (ExecutedBy.VACUOUS, "vacuous"),
            (ExecutedBy.NOT_PASSED, "not passed"),
        )
    )
    packages = ", ".join(f"{name} {version}" for name, version in summary.packages.items())
    return f"{sum(summary.cells.values()):,} cells: {', '.join(counts)}. {packages}."
