"""Print a run, or one cell in full. rich is imported when something is printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.record.cell import Cell, Numerics
from harness.record.run import Run
from reports import facts, text
from reports.columns import lines
from reports.console import new_grid, new_table, outcome_style, print_more, print_section, safe_text
from reports.outcome import CellOutcome, words
from reports.render import models, pairs
from reports.summary import RunSummary, Totals, largest_stage, slowest_stage
from reports.verdict import RunVerdict, VerdictKind

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FAILURES_SHOWN = 20
_GAPS_SHOWN = 15
_MISSING_SHOWN = 10
_MODELS_SHOWN = 12
_SLOWEST_SHOWN = 5
_LARGEST_SHOWN = 5

_VERDICT_STYLES = {
    VerdictKind.PASSED: "bold white on blue",
    VerdictKind.FAILED: "bold white on red",
}


def render(
    run: Run | RunSummary, console: Console | None = None, against: Run | RunSummary | None = None
) -> None:
    """Print a run: environment, totals per target, failures, limitations, slowest cells, verdict.

    Args:
        run: a loaded run, or its summary.
        console: destination; by default standard output.
        against: another run with which the models are compared.
    """
    from rich.console import Console

    out = console or Console()
    found = RunSummary.from_run(run)
    judged = RunVerdict.from_run(found)
    _header(found, judged, out)
    _totals(found, out)
    _missing(found, out)
    _failures(found, out)
    _gaps(found, out)
    _models(
        models.collect_models(found, None if against is None else RunSummary.from_run(against)), out
    )
    _pairs(found, out)
    _slowest(found, out)
    _largest(found, out)
    verdict(judged, out)


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
    where = f"stage {cell.stage}" if cell.stage else ""
    grid = new_grid()
    for name, value in [
        ("Op", cell.op),
        ("Suite", cell.suite),
        ("Tags", ", ".join(cell.tags)),
        ("Ended in", where),
        ("Runtime", cell.runtime),
        ("Severity", _severity(cell)),
        ("Evidence", facts.evidence(cell)),
        ("Program", facts.program(cell)),
        ("Call time", facts.calls(cell)),
        ("Sizes", facts.tested_sizes(cell)),
        ("Seed", str(cell.seed)),
        ("Worker", facts.worker_text(cell, None if run is None else run.info)),
        ("Result from", facts.result_source(cell)),
        ("Earlier attempts", "; ".join(cell.attempts)),
    ]:
        if value:
            grid.add_row(safe_text(name, "dim"), safe_text(value))
    out.print(grid)
    if cell.error:
        print_section(out, "Error")
        out.print(safe_text(cell.error, "red" if outcome.is_red else ""))
        if cell.model_frame:
            out.print(safe_text(f"at {cell.model_frame}"))
        if cell.vendor_frame:
            out.print(safe_text(f"raised at {cell.vendor_frame}"))
    if cell.known_issues:
        print_section(out, "Known issues with these symptoms")
        for line in facts.known_issues(cell):
            out.print(safe_text(line))
    if cell.defects:
        print_section(out, "Known defects")
        for line in facts.defects(cell):
            out.print(safe_text(line))
    if cell.limitation is not None:
        print_section(out, "Limitation")
        out.print(safe_text(cell.limitation.reason))
        if cell.limitation.link:
            out.print(safe_text(cell.limitation.link, "underline"))
    if cell.numerics:
        print_section(out, "Numerics against the float64 oracle")
        out.print(_numerics(cell.numerics))
    if cell.first_divergence is not None:
        fails = cell.first_divergence.fails
        print_section(out, "Failing node" if fails else "First diverging node")
        out.print(safe_text(str(cell.first_divergence)))
        if cell.first_divergence.arguments:
            out.print(safe_text(f"called with {'; '.join(cell.first_divergence.arguments)}", "dim"))
    elif cell.trace_skipped:
        print_section(out, "First diverging node")
        out.print(safe_text(f"not known: {cell.trace_skipped}"))
    print_section(out, "Delegation")
    out.print(safe_text(facts.delegation(cell) or "not lowered, or the program has no nodes"))
    for name, ops in (
        ("Delegated", cell.delegation.delegated_ops),
        ("Fallback", cell.delegation.undelegated_ops),
    ):
        if ops:
            out.print(safe_text(f"{name}: {text.calls(ops, limit=100)}"))
    # Older records have no reasons.
    for reason, ops in facts.reasons(cell) if cell.delegation.reasons else ():
        out.print(safe_text(f"    {reason}: {text.calls(ops)}", "dim"))
    if cell.stages or cell.memory:
        print_section(out, "Time and memory" if cell.memory else "Time")
        out.print(_times(cell))
    if cell.traceback:
        print_section(out, "Traceback")
        out.print(safe_text(text.tail(cell.traceback, 20_000)))
    if run is not None:
        print_section(out, "Environment")
        pairs = [*facts.facts(run), ("Packages", _packages(run))]
        grid = new_grid()
        for name, value in pairs:
            grid.add_row(safe_text(name, "dim"), safe_text(value))
        out.print(grid)
    print_section(out, "Run it again")
    out.print(safe_text(cell.repro, "bold"), soft_wrap=True)
    if any(row.problem for row in cell.numerics) and cell.first_divergence is None:
        print_section(out, "Find the first diverging node")
        out.print(safe_text(cell.trace_command, "bold"), soft_wrap=True)


def _header(found: RunSummary, judged: RunVerdict, out: Console) -> None:
    run = found.run
    out.rule(safe_text(facts.title(run), "bold"), align="left")
    grid = new_grid()
    for name, value in [
        ("Folder", str(run.path)),
        ("State", "INCOMPLETE" if found.incompleteness else "complete"),
        *facts.facts(run),
        ("Packages", _packages(run)),
    ]:
        style = "bold yellow" if value == "INCOMPLETE" else ""
        grid.add_row(safe_text(name, "dim"), safe_text(value, style))
    out.print(grid)
    for concern in judged.concerns:
        out.print(safe_text(f"! {concern}", "yellow"))


def _totals(found: RunSummary, out: Console) -> None:
    totals = [line.total for line in lines(found.totals)]
    print_section(out, "Targets")
    if not totals:
        out.print(safe_text("empty: no target was selected and no cell has a record", "yellow"))
        return
    # Columns of zeros are left out; symbols as heads keep twelve columns within a terminal.
    shown = [outcome for outcome in CellOutcome if any(total.counts[outcome] for total in totals)]
    table = _totals_table(totals, shown)
    wide = out.options.update(max_width=1000)
    # rich silently drops columns that do not fit, and a crash could be in one of them.
    if out.measure(table, options=wide).maximum <= out.width:
        out.print(table)
        legend = [safe_text(f"{each.symbol} {each.label}", outcome_style(each)) for each in shown]
        out.print(safe_text("   ").join(legend))
    else:
        for total in totals:
            counts = [
                safe_text(f"{total.counts[each]:,} {each.label}", outcome_style(each))
                for each in shown
                if total.counts[each]
            ]
            out.print(safe_text(total.target, "bold"), safe_text(total.rate_text))
            out.print(safe_text("    "), safe_text("; ").join(counts), sep="")
    out.print(
        safe_text("rated: all cells except unsupported; passed: executed within bounds", "dim")
    )
    if CellOutcome.VACUOUS in shown:
        out.print(safe_text(f"{CellOutcome.VACUOUS.label}: {CellOutcome.VACUOUS.meaning}", "dim"))


def _totals_table(totals: list[Totals], shown: list[CellOutcome]) -> Table:
    table = new_table("target", "passed of rated")
    for outcome in shown:
        table.add_column(safe_text(outcome.symbol, outcome_style(outcome)), justify="right")
    table.add_column("time", justify="right")
    for total in totals:
        counts = [
            safe_text(f"{total.counts[outcome]:,}", outcome_style(outcome))
            if total.counts[outcome]
            else safe_text("·", "dim")
            for outcome in shown
        ]
        rate = safe_text(total.rate_text, "bold red" if total.red else "")
        table.add_row(
            safe_text(total.target), rate, *counts, safe_text(text.seconds(total.seconds))
        )
    return table


def _missing(found: RunSummary, out: Console) -> None:
    if not (missing := found.missing):
        return
    print_section(out, f"Not run: {text.count(len(missing), 'expected cell')} without a record")
    for name in missing[:_MISSING_SHOWN]:
        out.print(safe_text(f"? {name}", "yellow"))
    print_more(out, len(missing) - _MISSING_SHOWN)


def _failures(found: RunSummary, out: Console) -> None:
    failures = found.failures
    if not failures:
        return
    print_section(out, f"Red: {text.count(len(failures), 'cell')}, worst first")
    for row in failures[:FAILURES_SHOWN]:
        if row.cell is None:
            continue
        style = outcome_style(row.outcome)
        stage = f" in {row.cell.stage}" if row.cell.stage else ""
        label = f" {row.words}{stage}"
        out.print(safe_text(f"{row.outcome.symbol} {row.id}", style), safe_text(label), sep="")
        cell = row.cell
        details = [cell.error or "", facts.describe_worst_output(cell), facts.divergence(cell)]
        details += [facts.delegation(cell), facts.fallback_ops(cell), *facts.known_issues(cell)]
        for detail in filter(None, details):
            out.print(safe_text(f"    {text.line(detail, 400)}"))
        out.print(safe_text(f"    {row.cell.repro}", "dim"), soft_wrap=True)
    print_more(out, len(failures) - FAILURES_SHOWN)


def _gaps(found: RunSummary, out: Console) -> None:
    gaps = found.limitation_groups
    if not gaps:
        return
    print_section(out, "Limitations by reason")
    table = new_table("cells", "outcome", "reason", "targets")
    for gap in gaps[:_GAPS_SHOWN]:
        ended = ", ".join(f"{number} {outcome.label}" for outcome, number in gap.counts.items())
        stale = gap.counts[CellOutcome.XPASSED] > 0
        reason = f"{gap.reason} ({gap.link})" if gap.link else gap.reason
        table.add_row(
            safe_text(f"{len(gap.rows):,}"),
            safe_text(ended, "bold magenta" if stale else ""),
            safe_text(text.line(reason, 300)),
            safe_text(", ".join(gap.targets)),
        )
    out.print(table)
    print_more(out, len(gaps) - _GAPS_SHOWN)


def _models(found: models.Models, out: Console) -> None:
    listed = [model for members in found.cases.values() for model in members]
    if not listed:
        return
    print_section(out, f"Models, compared with {found.against}" if found.against else "Models")
    for model in listed[:_MODELS_SHOWN]:
        row = model.row
        was = f", was {model.was.label}" if model.was else ", new" if model.is_new else ""
        out.print(
            safe_text(f"{row.outcome.symbol} {row.id}", outcome_style(row.outcome)),
            safe_text(f" {row.words}{was} {model.runtime}".rstrip()),
            sep="",
        )
        figures = ", ".join(
            f"{name.lower()} {models.format_figure(one)}" for name, one in model.named
        )
        for line in filter(None, (figures, model.diverges)):
            out.print(safe_text(f"    {line}", "dim"))
    print_more(out, len(listed) - _MODELS_SHOWN)
    if found.times_differ:
        out.print(safe_text(models.OTHER_HOST, "dim"))


def _pairs(found: RunSummary, out: Console) -> None:
    shown = list(pairs.rows(found))
    if not shown:
        return
    print_section(out, "The same weights on two backends")
    for case, targets, weights, _, relative, cosine, _ in shown:
        out.print(safe_text(case, "bold"), safe_text(f"on {targets}"))
        out.print(safe_text(f"    weights {weights}"))
        out.print(safe_text(f"    outputs differ by {relative} (rel. Frobenius), cosine {cosine}"))


def _slowest(found: RunSummary, out: Console) -> None:
    slowest = found.slowest(_SLOWEST_SHOWN)
    if not slowest:
        return
    print_section(out, "Slowest cells")
    for row in slowest:
        if row.cell is None:
            continue
        stage = slowest_stage(row.cell)
        most = f", {text.seconds(stage[1])} of it in {stage[0]}" if stage else ""
        out.print(safe_text(f"{text.seconds(row.cell.seconds):>12}  {row.id}{most}"))


def _largest(found: RunSummary, out: Console) -> None:
    largest = found.largest(_LARGEST_SHOWN)
    if not largest:
        return
    print_section(out, "Largest cells")
    for row in largest:
        if row.cell is not None and (stage := largest_stage(row.cell)) is not None:
            out.print(safe_text(f"{text.memory(stage[1]):>12}  {row.id}, in {stage[0]}"))


def verdict(judged: RunVerdict, out: Console) -> None:
    """Print the verdict on a run and its reason."""
    out.print()
    style = _VERDICT_STYLES.get(judged.kind, "bold black on yellow")
    out.print(safe_text(f" {judged.headline} ", style), safe_text(judged.sentence))


def _numerics(outputs: list[Numerics]) -> Table:
    """A table with a column for each output: most cells have one output."""
    table = new_table("", *(f"call {item.call}, output {item.output}" for item in outputs))
    rows: dict[str, Callable[[Numerics], str]] = {
        "dtype, shape": lambda item: f"{item.dtype} {text.shape(item.shape)}",
        "severity": lambda item: "–" if item.severity is None else item.severity.value,
        "worst at": lambda item: _worst(item, 0),
        "got": lambda item: _worst(item, 1),
        "expected": lambda item: _worst(item, 2),
        "error there": lambda item: text.measure(text.error_there(item)),
        "bound there": lambda item: text.measure(item.bound),
        "used": lambda item: text.bound_use(item.bound_used),
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
    return table


def _severity(cell: Cell) -> str:
    return "" if cell.severity is None else f"{cell.severity.value}: {cell.severity.meaning}"


def _worst(item: Numerics, part: int) -> str:
    return (text.worst(item) or ("–", "–", "–"))[part]


def _times(cell: Cell) -> Table:
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
    return grid


def _packages(run: Run) -> str:
    return ", ".join(f"{name} {version}" for name, version in facts.packages(run))
