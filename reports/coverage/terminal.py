"""Print a coverage summary."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.coverage.summary import CoverageSummary, ExecutedBy, FileCoverage
from reports import text
from reports.console import new_table
from reports.coverage import views

_AREAS_TITLE = "Code by the cells that execute it"


def render(
    summary: CoverageSummary, console: Console, *, area: str, pattern: str, limit: int
) -> None:
    """Print the areas, and the files with most lines that no conclusive cell executes.

    Args:
        summary: the summary.
        console: where to print.
        area: print only files of this area; empty for all.
        pattern: print the functions of files that match this; empty for a table of files.
        limit: print at most this many files; 0 for all.

    Raises:
        UsageError: there is no such area or file.
    """
    files = views.select_files(summary, area, pattern)
    console.print(Text(views.describe_cells(summary)))
    if not pattern:
        console.print(_tabulate_areas(summary, area))
    shown = files[:limit] if limit else files
    if pattern:
        for file in shown:
            _print_functions(file, console)
    else:
        _print_files(shown, console)
    if len(files) > len(shown):
        left = f"and {text.count(len(files) - len(shown), 'more file')}; show all with --limit 0"
        console.print(Text(left, style="dim"))
    if not pattern:
        for kind in ExecutedBy:
            console.print(Text(f"{views.LABELS[kind]}: {views.MEANINGS[kind]}", style="dim"))


def _tabulate_areas(summary: CoverageSummary, area: str) -> Table:
    table = new_table(title=_AREAS_TITLE)
    table.add_column("area", no_wrap=True)
    for heading in ("functions", *(views.LABELS[kind] for kind in ExecutedBy), "lines", "branches"):
        table.add_column(heading, justify="right", no_wrap=" " not in heading)
    for row in views.list_areas(summary):
        if area in ("", row.area):
            counts = row.totals.functions
            table.add_row(
                row.area,
                f"{sum(counts.values()):,}",
                f"{row.functions:.0%}",
                *(f"{counts[kind]:,}" for kind in list(ExecutedBy)[1:]),
                f"{row.lines:.0%}",
                f"{row.branches:.0%}",
            )
    return table


def _print_files(files: list[FileCoverage], console: Console) -> None:
    console.print(Text("Lines that no conclusive cell executes", style="bold"))
    for file in files:
        total = sum(each.lines for each in file.functions)
        counts = f"{file.missing_lines:>6,} of {total:>5,}"
        console.print(Text(f"{counts}  {file.name}"), soft_wrap=True)
        never = [each.name for each in file.functions if each.executed_by is ExecutedBy.NEVER]
        if never:
            more = f" and {len(never) - 3} more" if len(never) > 3 else ""
            line = f"{'':>17}never executed: {', '.join(never[:3])}{more}"
            console.print(Text(line, style="dim"), soft_wrap=True)


def _print_functions(file: FileCoverage, console: Console) -> None:
    total = sum(each.lines for each in file.functions)
    console.print(
        Text(f"\n{file.name}", style="bold"), Text(f"{file.missing_lines} of {total} lines")
    )
    for function in views.select_functions(file):
        line = Text(f"  {function.line}  {function.name}: {views.describe_function(function)}")
        console.print(line, soft_wrap=True)
