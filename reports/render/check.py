"""Print a check of one model: a row for each target, then errors and what to do about them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.record.cell import Cell
from harness.record.evidence import VacuousCause
from harness.record.run import Run
from reports import facts, text
from reports.console import new_grid, new_table, outcome_style, print_section, safe_text
from reports.outcome import CellOutcome, severity_rank, words
from reports.render.terminal import verdict
from reports.render.terminal_cell import quality_table
from reports.render.views import figures
from reports.summary import RunSummary
from reports.verdict import RunVerdict

if TYPE_CHECKING:
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

_PACKAGES = ("torch", "executorch")
_REASON = 160
_ERROR = 700
_OUTPUTS = 4
# Stages that take less of a cell's time are left out.
_SHARE = 0.01

# Recipes with float32 bounds, on any backend.
_FINEST = ("fp32", "fp")
_FINER = "Rounding in {recipe} explains that; a float32 target has narrower bounds."
_WIDE = (
    "Rounding in float32 explains that. conform trace --all-nodes shows the bound of each node, "
    "and where it becomes that wide."
)
_ADVICE = {
    VacuousCause.EMPTY: "Give inputs for which it has elements.",
    VacuousCause.EQUAL: "Give inputs for which they differ, or return the value before it "
    "saturates.",
}


def render(run: Run, notes: Sequence[str], out: Console) -> None:
    """Print a check.

    Args:
        run: the run of the check.
        notes: remarks on the model, one line each.
        out: destination.
    """
    found = RunSummary.from_run(run)
    packages = {name: version for name, version in facts.packages(run) if name in _PACKAGES}
    named = ", ".join(f"{name} {version}" for name, version in packages.items())
    cases = list(dict.fromkeys(row.case for row in found.rows))
    out.rule(safe_text(cases[0] if cases else facts.title(run), "bold"), align="left")
    out.print(safe_text(f"seed {run.info.seed}, {named}", "dim"))
    for note in notes:
        out.print(safe_text(note))
    for case in cases:
        cells = [row.cell for row in found.rows if row.case == case and row.cell is not None]
        if len(cases) > 1:
            print_section(out, case)
        out.print(_make_table(cells))
        _print_legend(cells, out)
        _print_quality(cells, out)
        _print_fallback_nodes(cells, out)
        _print_times(cells, out)
        _print_errors(cells, out)
        _print_vacuous(cells, out)
    verdict(RunVerdict.from_run(found), out)


def _make_table(cells: Sequence[Cell]) -> Table:
    table = new_table("target")
    for name in ("outcome", "runtime"):
        table.add_column(name, no_wrap=True)
    for name in ("nodes in\ndelegates", "program", "SQNR\ndB", "bound\nused"):
        table.add_column(name, justify="right", no_wrap=True)
    for cell in cells:
        outcome = CellOutcome.from_cell(cell)
        style = outcome_style(outcome)
        runtime, nodes, program, sqnr, used, _ = figures(cell)
        # The reference of a quantized cell is the quantized graph, so its SQNR does not show the
        # error of quantization; the SQNR against the float model does.
        model = facts.model_sqnr(cell)
        apart = [sqnr] if model is None else [sqnr, text.decibels(model)]
        table.add_row(
            safe_text(cell.target),
            safe_text(f"{outcome.symbol} {_format_outcome(cell)}", style),
            *map(safe_text, (runtime, nodes, program)),
            safe_text("\n".join(each.removesuffix(" dB") for each in apart)),
            safe_text(used, style if outcome.is_red else ""),
        )
    return table


def _format_outcome(cell: Cell) -> str:
    """The outcome, and below it the severity: terminals are narrow."""
    word = cell.status.value
    return word if cell.severity is None else f"{word}\n  {cell.severity.value}"


def _print_legend(cells: Sequence[Cell], out: Console) -> None:
    """Explain the symbols whose word in the table is only "passed"."""
    shown = dict.fromkeys(map(CellOutcome.from_cell, cells))
    for outcome in (CellOutcome.UNDELEGATED, CellOutcome.DEGRADED, CellOutcome.VACUOUS):
        if outcome in shown:
            out.print(safe_text(f"{outcome.symbol} {outcome.label}: {outcome.meaning}", "dim"))
    quantized = [cell.target for cell in cells if facts.model_sqnr(cell) is not None]
    if quantized:
        words = "SQNR of the worst output of a call: first line against the quantized graph, "
        words += "second against the float model"
        out.print(safe_text(f"{words} ({', '.join(quantized)})", "dim"))


def _print_quality(cells: Sequence[Cell], out: Console) -> None:
    """How far quantized graphs are from their models, which tensors cause it, and metrics."""
    for cell in cells:
        if cell.quality is not None and (cell.quality.is_degraded or cell.quality.clipped):
            out.print(safe_text(f"{cell.target}: {facts.quality(cell)}"))
        if metrics := facts.metrics(cell):
            out.print(safe_text(f"{cell.target}: {metrics}"))
        if search := facts.quality_search(cell):
            out.print(safe_text(f"{cell.target}: {search}"))
        for table in quality_table(cell):
            print_section(out, f"Where the quality goes on {cell.target}")
            out.print(table)


def _print_fallback_nodes(cells: Sequence[Cell], out: Console) -> None:
    """The fallback nodes of each target, with the partitioner's reasons."""
    shown = [cell for cell in cells if cell.delegation.undelegated_nodes]
    if not shown:
        return
    print_section(out, "Fallback nodes")
    for cell in shown:
        nodes = text.count(cell.delegation.undelegated_nodes, "node")
        out.print(safe_text(cell.target, "bold"), safe_text(nodes))
        reasons = facts.reasons(cell)
        if cell.delegation.is_empty and len(reasons) == 1:
            out.print(_indent(safe_text(f"all of them: {text.line(reasons[0][0], _REASON)}")))
            continue
        for reason, ops in reasons:
            line = safe_text(f"{text.line(reason, _REASON)}: ")
            out.print(_indent(line.append_text(safe_text(text.calls(ops), "dim"))))


def _print_times(cells: Sequence[Cell], out: Console) -> None:
    print_section(out, "Time")
    grid = new_grid()
    grid.add_column(overflow="fold")
    for cell in cells:
        stages = [
            f"{name} {text.seconds(value)}"
            for name, value in cell.stages.items()
            if value >= _SHARE * cell.seconds
        ]
        total = safe_text(text.seconds(cell.seconds))
        grid.add_row(safe_text(cell.target), total, safe_text(", ".join(stages), "dim"))
        if profile := facts.run_profile(cell):
            grid.add_row("", "", safe_text(f"in the runtime: {profile}"))
    out.print(grid)


def _print_errors(cells: Sequence[Cell], out: Console) -> None:
    """Errors; targets with the same error share one entry."""
    groups: dict[tuple[CellOutcome, str, str, str], list[Cell]] = {}
    for cell in cells:
        if cell.error:
            key = CellOutcome.from_cell(cell), cell.stage or "", cell.error, cell.model_frame or ""
            groups.setdefault(key, []).append(cell)
    if groups:
        print_section(out, "Why")
    for members in sorted(groups.values(), key=_badness, reverse=True):
        _print_error(members, out)


def _badness(members: Sequence[Cell]) -> tuple[int, int]:
    outcome = CellOutcome.from_cell(members[0])
    return outcome.badness, max(severity_rank(outcome, cell.severity) for cell in members)


def _print_error(members: Sequence[Cell], out: Console) -> None:
    """Print the error that cells share, and for each cell its divergence."""
    first = members[0]
    outcome = CellOutcome.from_cell(first)
    where = f" in stage {first.stage}" if first.stage else ""
    label = f"{outcome.symbol} {words(outcome, first.severity)}{where}"
    targets = ", ".join(cell.target for cell in members)
    out.print(safe_text(label, outcome_style(outcome)), safe_text(targets))
    out.print(_indent(safe_text(text.line(first.error or "", _ERROR))))
    if first.model_frame:
        # Relative to the current directory, as the user typed it.
        near = text.line(first.model_frame, 400).removeprefix(f"{Path.cwd()}{os.sep}")
        out.print(_indent(safe_text(f"at {near}")))
    shown = ""
    for cell in members:
        if cell.first_divergence is not None or cell.trace_skipped:
            out.print(_indent(safe_text(f"{cell.target}: {facts.divergence(cell)}")))
        if cell.trace_skipped and cell.first_divergence is None and outcome.is_red:
            out.print(safe_text(f"  trace it with: {cell.repro} --trace", "dim"), soft_wrap=True)
        if cell.vendor_frame and cell.vendor_frame != shown:
            shown = cell.vendor_frame
            out.print(_indent(safe_text(f"raised at {text.line(shown, 300)}")))
    # All members have the same error, and so the same defects.
    for line in facts.defects(first):
        out.print(_indent(safe_text(f"- {line}")))
    for line in dict.fromkeys(line for cell in members for line in facts.known_issues(cell)):
        out.print(_indent(safe_text(line, "yellow")))
    if outcome.is_red:
        out.print(safe_text(f"  {first.repro}", "dim"), soft_wrap=True)


def _print_vacuous(cells: Sequence[Cell], out: Console) -> None:
    """Vacuous passes: which output, the reason, and advice."""
    shown = [cell for cell in cells if CellOutcome.from_cell(cell) is CellOutcome.VACUOUS]
    if not shown:
        return
    print_section(out, f"{text.count(len(shown), 'vacuous pass', 'vacuous passes')}: no evidence")
    for cell in shown:
        out.print(safe_text(cell.target, "bold"))
        rows = [row for row in cell.numerics if not row.is_conclusive]
        for row in rows[:_OUTPUTS]:
            why = facts.vacuous(row) or facts.evidence(cell)
            out.print(_indent(safe_text(why, "yellow")))
            if row.vacuous is not None:
                out.print(_indent(safe_text(_choose_advice(cell, row.vacuous.cause), "dim")))
        if len(rows) > _OUTPUTS:
            more = text.count(len(rows) - _OUTPUTS, "more output")
            out.print(_indent(safe_text(f"and {more}", "dim")))


def _choose_advice(cell: Cell, cause: VacuousCause) -> str:
    """How to make an output conclusive on this target."""
    if cause in _ADVICE:
        return _ADVICE[cause]
    recipe = re.split("[+-]", cell.target.partition(":")[2])[0]
    if recipe not in _FINEST:
        return _FINER.format(recipe=recipe)
    if cause is VacuousCause.INFINITE:
        return "Give inputs for which no intermediate value leaves the range of the dtype."
    return _WIDE


def _indent(shown: Text) -> Padding:
    from rich.padding import Padding

    return Padding(shown, (0, 0, 0, 2))
