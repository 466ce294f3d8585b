"""Print one cell in full. rich is imported when something is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from harness.record.cell import Cell, Numerics
from harness.record.run import Run
from reports import facts, text
from reports.console import new_grid, new_table, outcome_style, print_section, safe_text
from reports.outcome import CellOutcome, words
from reports.render.terminal import format_packages

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text


def show(cell: Cell, console: Console | None = None, run: Run | None = None) -> None:
    """Print one cell in full.

    Args:
        cell: the record.
        console: destination; by default standard output.
        run: the run of the cell, for the environment.
    """
    from rich.console import Console

    out = console or Console()
    outcome = CellOutcome.from_cell(cell)
    out.rule(safe_text(cell.id, "bold"), align="left")
    out.print(
        safe_text(f"{outcome.symbol} {words(outcome, cell.severity)}", outcome_style(outcome)),
        safe_text(outcome.meaning),
    )
    out.print(_properties(cell, run))
    for title, contents in _sections(cell):
        if shown := list(contents):
            print_section(out, title)
            for each in shown:
                out.print(each)
    if run is not None:
        print_section(out, "Environment")
        out.print(_grid([*facts.facts(run), ("Packages", format_packages(run))]))
    print_section(out, "Run it again")
    out.print(safe_text(cell.repro, "bold"), soft_wrap=True)
    if any(row.problem for row in cell.numerics) and cell.first_divergence is None:
        print_section(out, "Find the first diverging node")
        out.print(safe_text(cell.trace_command, "bold"), soft_wrap=True)


def _sections(cell: Cell) -> Iterator[tuple[str, Iterator[RenderableType]]]:
    """The sections of a cell in order, with what each prints; empty ones are not printed."""
    fails = cell.first_divergence is not None and cell.first_divergence.fails
    yield "Error", _error(cell)
    yield "Known issues with these symptoms", map(safe_text, facts.known_issues(cell))
    yield "Known defects", map(safe_text, facts.defects(cell))
    yield "Limitation", _limitation(cell)
    yield "Numerics against the float64 oracle", _numerics(cell.numerics)
    yield "Where the quality goes", quality_table(cell)
    yield "Failing node" if fails else "First diverging node", _divergence(cell)
    yield "Delegation", _delegation(cell)
    yield "Time and memory" if cell.memory else "Time", _times(cell)
    yield "Traceback", map(safe_text, [text.tail(cell.traceback, 20_000)] if cell.traceback else [])


def quality_table(cell: Cell) -> Iterator[Table]:
    """The roundings of a quantizer that cost most; nothing where they were not measured."""
    if rows := facts.quality_parts(cell):
        table = new_table(*facts.QUALITY_HEAD)
        for row in rows:
            table.add_row(*map(safe_text, row))
        yield table


def _properties(cell: Cell, run: Run | None) -> Table:
    pairs = [
        ("Op", cell.op),
        ("Suite", cell.suite),
        ("Tags", ", ".join(cell.tags)),
        ("Ended in", f"stage {cell.stage}" if cell.stage else ""),
        ("Runtime", cell.runtime),
        ("Severity", _severity(cell)),
        ("Evidence", facts.evidence(cell)),
        ("Quality", facts.quality(cell)),
        ("Quality in float", facts.quality_search(cell)),
        ("Metrics", facts.metrics(cell)),
        ("Program", facts.program(cell)),
        ("Call time", facts.calls(cell)),
        ("Sizes", facts.tested_sizes(cell)),
        ("Seed", str(cell.seed)),
        ("Worker", facts.worker_text(cell, None if run is None else run.info)),
        ("Result from", facts.result_source(cell)),
        ("Earlier attempts", "; ".join(cell.attempts)),
    ]
    return _grid([(name, value) for name, value in pairs if value])


def _grid(pairs: list[tuple[str, str]]) -> Table:
    grid = new_grid()
    for name, value in pairs:
        grid.add_row(safe_text(name, "dim"), safe_text(value))
    return grid


def _severity(cell: Cell) -> str:
    return "" if cell.severity is None else f"{cell.severity.value}: {cell.severity.meaning}"


def _error(cell: Cell) -> Iterator[Text]:
    if not cell.error:
        return
    yield safe_text(cell.error, "red" if CellOutcome.from_cell(cell).is_red else "")
    if cell.model_frame:
        yield safe_text(f"at {cell.model_frame}")
    if cell.vendor_frame:
        yield safe_text(f"raised at {cell.vendor_frame}")


def _limitation(cell: Cell) -> Iterator[Text]:
    if cell.limitation is not None:
        yield safe_text(cell.limitation.reason)
        if cell.limitation.link:
            yield safe_text(cell.limitation.link, "underline")


def _divergence(cell: Cell) -> Iterator[Text]:
    if cell.first_divergence is not None:
        yield safe_text(str(cell.first_divergence))
        if cell.first_divergence.arguments:
            yield safe_text(f"called with {'; '.join(cell.first_divergence.arguments)}", "dim")
    elif cell.trace_skipped:
        yield safe_text(f"not known: {cell.trace_skipped}")


def _delegation(cell: Cell) -> Iterator[Text]:
    yield safe_text(facts.delegation(cell) or "not lowered, or the program has no nodes")
    for name, ops in (
        ("Delegated", cell.delegation.delegated_ops),
        ("Fallback", cell.delegation.undelegated_ops),
    ):
        if ops:
            yield safe_text(f"{name}: {text.calls(ops, limit=100)}")
    # Older records have no reasons.
    for reason, ops in facts.reasons(cell) if cell.delegation.reasons else ():
        yield safe_text(f"    {reason}: {text.calls(ops)}", "dim")


def _numerics(outputs: list[Numerics]) -> Iterator[Table]:
    """A table with a column for each output: most cells have one output."""
    if not outputs:
        return
    table = new_table("", *(f"call {item.call}, output {item.output}" for item in outputs))
    rows: dict[str, Callable[[Numerics], str]] = {
        "dtype, shape": lambda item: f"{item.dtype} {text.shape(item.shape)}",
        "severity": lambda item: "–" if item.severity is None else item.severity.value,
        "worst at": lambda item: _worst(item, 0),
        "got": lambda item: _worst(item, 1),
        "expected": lambda item: _worst(item, 2),
        "error there": lambda item: text.measure(text.error_there(item)),
        "bound there": lambda item: text.measure(item.bound),
        "used": text.output_use,
        "out of bound": lambda item: f"{item.exceeding:,} of {item.elements:,}",
        "max abs": lambda item: text.measure(item.max_abs),
        "SQNR": lambda item: text.decibels(item.sqnr_db),
        "cosine": lambda item: text.measure(item.cosine),
        "ULP": lambda item: text.ulps(item.max_ulp),
        "SQNR to eager": lambda item: text.decibels(item.eager_sqnr_db),
        "SQNR to the float model": lambda item: text.decibels(item.model_sqnr_db),
    }
    for name, spell in rows.items():
        cells = [safe_text(spell(item), "red" if item.problem else "") for item in outputs]
        table.add_row(safe_text(name, "dim"), *cells)
    yield table


def _worst(item: Numerics, part: int) -> str:
    return (text.worst(item) or ("–", "–", "–"))[part]


def _times(cell: Cell) -> Iterator[Table]:
    if not cell.stages and not cell.memory:
        return
    grid = new_grid()
    for name, spent, held in facts.stages(cell):
        grid.add_row(safe_text(name, "dim"), safe_text(spent), safe_text(held))
    grid.add_row(
        safe_text("harness overhead", "dim"), safe_text(text.seconds(facts.overhead(cell)))
    )
    peak = cell.peak_memory
    grid.add_row(
        safe_text("total" if peak is None else "total, peak", "bold"),
        safe_text(text.seconds(cell.seconds), "bold"),
        safe_text("" if peak is None else text.memory(peak), "bold"),
    )
    yield grid
