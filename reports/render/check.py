"""A check of one model for a terminal: a row a target, then why, and what to do about it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.record.cell import Cell
from harness.record.run import Run
from reports import facts, text
from reports.console import new_grid, new_table, section, style_of, styled
from reports.outcome import Outcome
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
# Stages that take less of a cell's time are left out.
_SHARE = 0.01

_WHAT_TO_DO = (
    "A constant would pass in place of these outputs: they vary by less than their bound, so a "
    "pass is no evidence. Scale the weights up, or load trained ones; give real inputs (--inputs)."
)


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
        if any(Outcome.of(cell) is Outcome.UNTELLING for cell in cells):
            section(out, "This proves little")
            out.print(styled(_WHAT_TO_DO, "yellow"))
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
        table.add_row(
            styled(cell.target),
            styled(f"{outcome.symbol} {cell.status.value}", style),
            *map(styled, (runtime, nodes, program, sqnr.removesuffix(" dB"))),
            styled(used, style if outcome.is_red else ""),
        )
    return table


def _legend(cells: Sequence[Cell], out: Console) -> None:
    """What the signs of this table mean, where the word beside them does not say all of it."""
    shown = dict.fromkeys(map(Outcome.of, cells))
    for outcome in (Outcome.UNDELEGATED, Outcome.UNTELLING):
        if outcome in shown:
            out.print(styled(f"{outcome.symbol} {outcome.label}: {outcome.meaning}", "dim"))


def _left_over(cells: Sequence[Cell], out: Console) -> None:
    """What each target left to the runtime, and why."""
    shown = [cell for cell in cells if cell.delegation.undelegated_nodes]
    if not shown:
        return
    section(out, "Left over")
    for cell in shown:
        nodes = text.count(cell.delegation.undelegated_nodes, "node")
        out.print(styled(cell.target, "bold"), styled(nodes))
        for reason, ops in facts.reasons(cell):
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
            key = Outcome.of(cell), cell.stage or "", cell.error, cell.frame or ""
            groups.setdefault(key, []).append(cell)
    if not groups:
        return
    section(out, "Why")
    ordered = sorted(groups.items(), key=lambda item: -item[0][0].badness)
    for (outcome, stage, error, frame), members in ordered:
        where = f" in stage {stage}" if stage else ""
        targets = ", ".join(cell.target for cell in members)
        out.print(
            styled(f"{outcome.symbol} {outcome.label}{where}", style_of(outcome)), styled(targets)
        )
        out.print(_indented(styled(text.line(error, _ERROR))))
        if frame:
            # As the user named it, where it lies below.
            near = text.line(frame, 400).removeprefix(f"{Path.cwd()}{os.sep}")
            out.print(_indented(styled(f"at {near}")))
        for cell in members:
            if cell.first_divergence is not None or cell.untraced:
                out.print(_indented(styled(f"{cell.target}: {facts.divergence(cell)}")))
        # Members say the same; so do their defects.
        for line in facts.defects(members[0]):
            out.print(_indented(styled(f"- {line}")))
        if outcome.is_red:
            out.print(styled(f"  {members[0].repro}", "dim"), soft_wrap=True)


def _indented(shown: Text) -> Padding:
    from rich.padding import Padding

    return Padding(shown, (0, 0, 0, 2))
