"""A check of one model for a terminal: a row a target, then why, and what to do about it."""

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
from reports.console import new_grid, new_table, section, style_of, styled
from reports.outcome import Outcome, severity_rank, words
from reports.render.terminal import verdict
from reports.render.views import figures
from reports.summary import Summary
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

# The recipe whose bounds are those of float32, by its name on any backend.
_FINEST = ("fp32", "fp")
_FINER = "Rounding in {recipe} explains that; a target of float32 has narrower bounds."
_WIDE = (
    "Rounding in float32 explains that. conform trace --all-nodes shows the bound of each node, "
    "and so where it becomes that wide."
)
_ADVICE = {
    VacuousCause.EMPTY: "Give inputs for which it has elements.",
    VacuousCause.EQUAL: "Give inputs for which they differ, or return a value from before they "
    "saturate.",
}


def render(run: Run, notes: Sequence[str], out: Console) -> None:
    """Print a check.

    Args:
        run: its record.
        notes: what is to be known of the model, a line each.
        out: where to.
    """
    found = Summary.of(run)
    packages = {name: version for name, version in facts.packages(run) if name in _PACKAGES}
    named = ", ".join(f"{name} {version}" for name, version in packages.items())
    cases = list(dict.fromkeys(row.case for row in found.rows))
    out.rule(styled(cases[0] if cases else facts.title(run), "bold"), align="left")
    out.print(styled(f"seed {run.info.seed}, {named}", "dim"))
    for note in notes:
        out.print(styled(note))
    for case in cases:
        cells = [row.cell for row in found.rows if row.case == case and row.cell is not None]
        if len(cases) > 1:
            section(out, case)
        out.print(_table(cells))
        _legend(cells, out)
        _left_over(cells, out)
        _times(cells, out)
        _why(cells, out)
        _vacuous(cells, out)
    verdict(RunVerdict.of(found), out)


def _table(cells: Sequence[Cell]) -> Table:
    table = new_table("target")
    for name in ("outcome", "runtime"):
        table.add_column(name, no_wrap=True)
    for name in ("nodes in\ndelegates", "program", "SQNR\ndB", "bound\nused"):
        table.add_column(name, justify="right", no_wrap=True)
    for cell in cells:
        outcome = Outcome.of(cell)
        style = style_of(outcome)
        runtime, nodes, program, sqnr, used, _ = figures(cell)
        # The reference of a quantized cell is the quantized graph: how well the backend computes it
        # says nothing of how far the graph is from the model.
        model = facts.model_sqnr(cell)
        apart = [sqnr] if model is None else [sqnr, text.decibels(model)]
        table.add_row(
            styled(cell.target),
            styled(f"{outcome.symbol} {_word(cell)}", style),
            *map(styled, (runtime, nodes, program)),
            styled("\n".join(each.removesuffix(" dB") for each in apart)),
            styled(used, style if outcome.is_red else ""),
        )
    return table


def _word(cell: Cell) -> str:
    """The outcome, and below it the severity: terminals are narrow."""
    word = cell.status.value
    return word if cell.severity is None else f"{word}\n  {cell.severity.value}"


def _legend(cells: Sequence[Cell], out: Console) -> None:
    """What the signs of this table mean, where the word beside them does not say all of it."""
    shown = dict.fromkeys(map(Outcome.of, cells))
    for outcome in (Outcome.UNDELEGATED, Outcome.VACUOUS):
        if outcome in shown:
            out.print(styled(f"{outcome.symbol} {outcome.label}: {outcome.meaning}", "dim"))
    quantized = [cell.target for cell in cells if facts.model_sqnr(cell) is not None]
    if quantized:
        words = "SQNR: above against the quantized graph, below against the float model"
        out.print(styled(f"{words} ({', '.join(quantized)})", "dim"))


def _left_over(cells: Sequence[Cell], out: Console) -> None:
    """What each target left to the runtime, and why."""
    shown = [cell for cell in cells if cell.delegation.undelegated_nodes]
    if not shown:
        return
    section(out, "Left over")
    for cell in shown:
        nodes = text.count(cell.delegation.undelegated_nodes, "node")
        out.print(styled(cell.target, "bold"), styled(nodes))
        reasons = facts.reasons(cell)
        if not cell.delegation.delegates and len(reasons) == 1:
            out.print(_indented(styled(f"all of them: {text.line(reasons[0][0], _REASON)}")))
            continue
        for reason, ops in reasons:
            line = styled(f"{text.line(reason, _REASON)}: ")
            out.print(_indented(line.append_text(styled(text.calls(ops), "dim"))))


def _times(cells: Sequence[Cell], out: Console) -> None:
    section(out, "Time")
    grid = new_grid()
    grid.add_column(overflow="fold")
    for cell in cells:
        stages = [
            f"{name} {text.seconds(value)}"
            for name, value in cell.stages.items()
            if value >= _SHARE * cell.seconds
        ]
        total = styled(text.seconds(cell.seconds))
        grid.add_row(styled(cell.target), total, styled(", ".join(stages), "dim"))
    out.print(grid)


def _why(cells: Sequence[Cell], out: Console) -> None:
    """Errors and reasons; what several targets say alike is said once."""
    groups: dict[tuple[Outcome, str, str, str], list[Cell]] = {}
    for cell in cells:
        if cell.error:
            key = Outcome.of(cell), cell.stage or "", cell.error, cell.model_frame or ""
            groups.setdefault(key, []).append(cell)
    if not groups:
        return
    section(out, "Why")

    def order(item: tuple[tuple[Outcome, str, str, str], list[Cell]]) -> tuple[int, int]:
        outcome = item[0][0]
        severity = max(severity_rank(outcome, cell.severity) for cell in item[1])
        return -outcome.badness, -severity

    for (outcome, stage, error, frame), members in sorted(groups.items(), key=order):
        where = f" in stage {stage}" if stage else ""
        targets = ", ".join(cell.target for cell in members)
        label = words(outcome, members[0].severity)
        out.print(styled(f"{outcome.symbol} {label}{where}", style_of(outcome)), styled(targets))
        out.print(_indented(styled(text.line(error, _ERROR))))
        if frame:
            # As the user named it, where it lies below.
            near = text.line(frame, 400).removeprefix(f"{Path.cwd()}{os.sep}")
            out.print(_indented(styled(f"at {near}")))
        shown = ""
        for cell in members:
            if cell.first_divergence is not None or cell.trace_skipped:
                out.print(_indented(styled(f"{cell.target}: {facts.divergence(cell)}")))
            if cell.trace_skipped and cell.first_divergence is None and outcome.is_red:
                out.print(styled(f"  trace it with: {cell.repro} --trace", "dim"), soft_wrap=True)
            if cell.vendor_frame and cell.vendor_frame != shown:
                shown = cell.vendor_frame
                out.print(_indented(styled(f"raised at {text.line(shown, 300)}")))
        # Members say the same; so do their defects.
        for line in facts.defects(members[0]):
            out.print(_indented(styled(f"- {line}")))
        for line in dict.fromkeys(line for cell in members for line in facts.known(cell)):
            out.print(_indented(styled(line, "yellow")))
        if outcome.is_red:
            out.print(styled(f"  {members[0].repro}", "dim"), soft_wrap=True)


def _vacuous(cells: Sequence[Cell], out: Console) -> None:
    """Of each pass that is no evidence, which output, what in it is the cause, and what helps."""
    shown = [cell for cell in cells if Outcome.of(cell) is Outcome.VACUOUS]
    if not shown:
        return
    section(out, f"Vacuous: {text.count(len(shown), 'pass', 'passes')} without evidence")
    for cell in shown:
        out.print(styled(cell.target, "bold"))
        rows = [row for row in cell.numerics if not row.is_conclusive]
        for row in rows[:_OUTPUTS]:
            why = facts.vacuous(row) or facts.evidence(cell)
            out.print(_indented(styled(why, "yellow")))
            if row.vacuous is not None:
                out.print(_indented(styled(_advice(cell, row.vacuous.cause), "dim")))
        if len(rows) > _OUTPUTS:
            more = text.count(len(rows) - _OUTPUTS, "more output")
            out.print(_indented(styled(f"and {more}", "dim")))


def _advice(cell: Cell, cause: VacuousCause) -> str:
    """What helps against a cause, on this target."""
    if cause in _ADVICE:
        return _ADVICE[cause]
    recipe = re.split("[+-]", cell.target.partition(":")[2])[0]
    if recipe not in _FINEST:
        return _FINER.format(recipe=recipe)
    if cause is VacuousCause.INFINITE:
        return "Give inputs for which no value on the way leaves the range of the dtype."
    return _WIDE


def _indented(shown: Text) -> Padding:
    from rich.padding import Padding

    return Padding(shown, (0, 0, 0, 2))
