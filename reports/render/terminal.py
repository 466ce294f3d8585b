"""A run, or one cell in full, for a terminal. rich is imported when something is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.record.cell import Cell, Numerics
from harness.record.run import Run
from reports import facts, text
from reports.columns import lines
from reports.console import and_more, new_grid, new_table, section, style_of, styled
from reports.outcome import Outcome, words
from reports.render import models, pairs
from reports.summary import Summary, Totals, largest_stage, slowest_stage
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
    run: Run | Summary, console: Console | None = None, against: Run | Summary | None = None
) -> None:
    """Print a run: what it was, totals per target, failures, limitations, what cost most, verdict.

    Args:
        run: a loaded run, or its summary.
        console: where to; by default standard output.
        against: another run, which its models are held against.
    """
    from rich.console import Console

    out = console or Console()
    found = Summary.of(run)
    judged = RunVerdict.of(found)
    _header(found, judged, out)
    _totals(found, out)
    _missing(found, out)
    _failures(found, out)
    _gaps(found, out)
    _models(models.models(found, None if against is None else Summary.of(against)), out)
    _pairs(found, out)
    _slowest(found, out)
    _largest(found, out)
    verdict(judged, out)


def show(cell: Cell, console: Console | None = None, run: Run | None = None) -> None:
    """Print one cell in full.

    Args:
        cell: the record.
        console: where to; by default standard output.
        run: the run it is from, for the environment.
    """
    from rich.console import Console

    out = console or Console()
    outcome = Outcome.of(cell)
    out.rule(styled(cell.id, "bold"), align="left")
    out.print(
        styled(f"{outcome.symbol} {words(outcome, cell.severity)}", style_of(outcome)),
        styled(outcome.meaning),
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
        ("A call", facts.calls(cell)),
        ("Sizes", facts.sizes(cell)),
        ("Seed", str(cell.seed)),
        ("Worker", facts.ran_on(cell, None if run is None else run.info)),
        ("Taken from", facts.taken_from(cell)),
        ("Tried before", "; ".join(cell.attempts)),
    ]:
        if value:
            grid.add_row(styled(name, "dim"), styled(value))
    out.print(grid)
    if cell.error:
        section(out, "Error")
        out.print(styled(cell.error, "red" if outcome.is_red else ""))
        if cell.model_frame:
            out.print(styled(f"at {cell.model_frame}"))
        if cell.vendor_frame:
            out.print(styled(f"raised at {cell.vendor_frame}"))
    if cell.known_issues:
        section(out, "Known issues with these signs")
        for line in facts.known(cell):
            out.print(styled(line))
    if cell.defects:
        section(out, "Known defects")
        for line in facts.defects(cell):
            out.print(styled(line))
    if cell.limitation is not None:
        section(out, "Limitation")
        out.print(styled(cell.limitation.reason))
        if cell.limitation.link:
            out.print(styled(cell.limitation.link, "underline"))
    if cell.numerics:
        section(out, "Numerics against the float64 oracle")
        out.print(_numerics(cell.numerics))
    if cell.first_divergence is not None:
        fails = cell.first_divergence.fails
        section(out, "Node that fails" if fails else "First wrong node")
        out.print(styled(str(cell.first_divergence)))
        if cell.first_divergence.arguments:
            out.print(styled(f"called with {'; '.join(cell.first_divergence.arguments)}", "dim"))
    elif cell.trace_skipped:
        section(out, "First wrong node")
        out.print(styled(f"not known: {cell.trace_skipped}"))
    section(out, "Delegation")
    out.print(styled(facts.delegation(cell) or "not lowered, or no node to delegate"))
    for name, ops in (
        ("Delegated", cell.delegation.delegated_ops),
        ("Left over", cell.delegation.undelegated_ops),
    ):
        if ops:
            out.print(styled(f"{name}: {text.calls(ops, limit=100)}"))
    # Older records do not say.
    for reason, ops in facts.reasons(cell) if cell.delegation.reasons else ():
        out.print(styled(f"    {reason}: {text.calls(ops)}", "dim"))
    if cell.stages or cell.memory:
        section(out, "Time and memory" if cell.memory else "Time")
        out.print(_times(cell))
    if cell.traceback:
        section(out, "Traceback")
        out.print(styled(text.tail(cell.traceback, 20_000)))
    if run is not None:
        section(out, "Environment")
        pairs = [*facts.facts(run), ("Packages", _packages(run))]
        grid = new_grid()
        for name, value in pairs:
            grid.add_row(styled(name, "dim"), styled(value))
        out.print(grid)
    section(out, "Run it again")
    out.print(styled(cell.repro, "bold"), soft_wrap=True)
    if any(row.problem for row in cell.numerics) and cell.first_divergence is None:
        section(out, "Which node makes it so")
        out.print(styled(cell.trace_command, "bold"), soft_wrap=True)


def _header(found: Summary, judged: RunVerdict, out: Console) -> None:
    run = found.run
    out.rule(styled(facts.title(run), "bold"), align="left")
    grid = new_grid()
    for name, value in [
        ("Folder", str(run.path)),
        ("State", "INCOMPLETE" if found.incompleteness else "complete"),
        *facts.facts(run),
        ("Packages", _packages(run)),
    ]:
        style = "bold yellow" if value == "INCOMPLETE" else ""
        grid.add_row(styled(name, "dim"), styled(value, style))
    out.print(grid)
    for concern in judged.concerns:
        out.print(styled(f"! {concern}", "yellow"))


def _totals(found: Summary, out: Console) -> None:
    totals = [line.total for line in lines(found.totals)]
    section(out, "Targets")
    if not totals:
        out.print(styled("empty: no target was selected and no cell has a record", "yellow"))
        return
    # A column of zeros says nothing, and the symbols keep twelve columns inside a terminal.
    shown = [outcome for outcome in Outcome if any(total.counts[outcome] for total in totals)]
    table = _totals_table(totals, shown)
    wide = out.options.update(max_width=1000)
    # rich drops columns that do not fit without a word, and a crash could be in one of them.
    if out.measure(table, options=wide).maximum <= out.width:
        out.print(table)
        legend = [styled(f"{each.symbol} {each.label}", style_of(each)) for each in shown]
        out.print(styled("   ").join(legend))
    else:
        for total in totals:
            counts = [
                styled(f"{total.counts[each]:,} {each.label}", style_of(each))
                for each in shown
                if total.counts[each]
            ]
            out.print(styled(total.target, "bold"), styled(total.rate_text))
            out.print(styled("    "), styled("; ").join(counts), sep="")
    out.print(
        styled("rated: all cells but the unsupported; passed: executed and within bounds", "dim")
    )
    if Outcome.VACUOUS in shown:
        out.print(styled(f"{Outcome.VACUOUS.label}: {Outcome.VACUOUS.meaning}", "dim"))


def _totals_table(totals: list[Totals], shown: list[Outcome]) -> Table:
    table = new_table("target", "passed of rated")
    for outcome in shown:
        table.add_column(styled(outcome.symbol, style_of(outcome)), justify="right")
    table.add_column("time", justify="right")
    for total in totals:
        counts = [
            styled(f"{total.counts[outcome]:,}", style_of(outcome))
            if total.counts[outcome]
            else styled("·", "dim")
            for outcome in shown
        ]
        rate = styled(total.rate_text, "bold red" if total.red else "")
        table.add_row(styled(total.target), rate, *counts, styled(text.seconds(total.seconds)))
    return table


def _missing(found: Summary, out: Console) -> None:
    if not (missing := found.missing):
        return
    section(out, f"Not run: {text.count(len(missing), 'expected cell')} without a record")
    for name in missing[:_MISSING_SHOWN]:
        out.print(styled(f"? {name}", "yellow"))
    and_more(out, len(missing) - _MISSING_SHOWN)


def _failures(found: Summary, out: Console) -> None:
    failures = found.failures
    if not failures:
        return
    section(out, f"Red: {text.count(len(failures), 'cell')}, worst first")
    for row in failures[:FAILURES_SHOWN]:
        if row.cell is None:
            continue
        style = style_of(row.outcome)
        stage = f" in {row.cell.stage}" if row.cell.stage else ""
        label = f" {row.words}{stage}"
        out.print(styled(f"{row.outcome.symbol} {row.id}", style), styled(label), sep="")
        cell = row.cell
        details = [cell.error or "", facts.wrongness(cell), facts.divergence(cell)]
        details += [facts.delegation(cell), facts.left_over(cell), *facts.known(cell)]
        for detail in filter(None, details):
            out.print(styled(f"    {text.line(detail, 400)}"))
        out.print(styled(f"    {row.cell.repro}", "dim"), soft_wrap=True)
    and_more(out, len(failures) - FAILURES_SHOWN)


def _gaps(found: Summary, out: Console) -> None:
    gaps = found.gaps
    if not gaps:
        return
    section(out, "Limitations by reason")
    table = new_table("cells", "outcome", "reason", "targets")
    for gap in gaps[:_GAPS_SHOWN]:
        ended = ", ".join(f"{number} {outcome.label}" for outcome, number in gap.counts.items())
        stale = gap.counts[Outcome.XPASSED] > 0
        reason = f"{gap.reason} ({gap.link})" if gap.link else gap.reason
        table.add_row(
            styled(f"{len(gap.rows):,}"),
            styled(ended, "bold magenta" if stale else ""),
            styled(text.line(reason, 300)),
            styled(", ".join(gap.targets)),
        )
    out.print(table)
    and_more(out, len(gaps) - _GAPS_SHOWN)


def _models(found: models.Models, out: Console) -> None:
    listed = [model for members in found.cases.values() for model in members]
    if not listed:
        return
    section(out, f"Models, against {found.against}" if found.against else "Models")
    for model in listed[:_MODELS_SHOWN]:
        row = model.row
        was = f", was {model.was.label}" if model.was else ", new" if model.is_new else ""
        out.print(
            styled(f"{row.outcome.symbol} {row.id}", style_of(row.outcome)),
            styled(f" {row.words}{was} {model.runtime}".rstrip()),
            sep="",
        )
        figures = ", ".join(f"{name.lower()} {models.spelled(one)}" for name, one in model.named)
        for line in filter(None, (figures, model.diverges)):
            out.print(styled(f"    {line}", "dim"))
    and_more(out, len(listed) - _MODELS_SHOWN)
    if found.times_differ:
        out.print(styled(models.OTHER_HOST, "dim"))


def _pairs(found: Summary, out: Console) -> None:
    shown = list(pairs.rows(found))
    if not shown:
        return
    section(out, "The same weights on two backends")
    for case, targets, weights, _, relative, cosine, _ in shown:
        out.print(styled(case, "bold"), styled(f"on {targets}"))
        out.print(styled(f"    weights {weights}"))
        out.print(styled(f"    outputs {relative} apart (rel. Frobenius), cosine {cosine}"))


def _slowest(found: Summary, out: Console) -> None:
    slowest = found.slowest(_SLOWEST_SHOWN)
    if not slowest:
        return
    section(out, "Slowest cells")
    for row in slowest:
        if row.cell is None:
            continue
        stage = slowest_stage(row.cell)
        most = f", of which {stage[0]} {text.seconds(stage[1])}" if stage else ""
        out.print(styled(f"{text.seconds(row.cell.seconds):>12}  {row.id}{most}"))


def _largest(found: Summary, out: Console) -> None:
    largest = found.largest(_LARGEST_SHOWN)
    if not largest:
        return
    section(out, "Largest cells")
    for row in largest:
        if row.cell is not None and (stage := largest_stage(row.cell)) is not None:
            out.print(styled(f"{text.memory(stage[1]):>12}  {row.id}, in {stage[0]}"))


def verdict(judged: RunVerdict, out: Console) -> None:
    """Print the word on a run, and the sentence that it rests on."""
    out.print()
    style = _VERDICT_STYLES.get(judged.kind, "bold black on yellow")
    out.print(styled(f" {judged.headline} ", style), styled(judged.sentence))


def _numerics(outputs: list[Numerics]) -> Table:
    """A column an output: most cells have one, and a terminal is narrow."""
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
        cells = [styled(spell(item), "red" if item.problem else "") for item in outputs]
        table.add_row(styled(name, "dim"), *cells)
    return table


def _severity(cell: Cell) -> str:
    return "" if cell.severity is None else f"{cell.severity.value}: {cell.severity.meaning}"


def _worst(item: Numerics, part: int) -> str:
    return (text.worst(item) or ("–", "–", "–"))[part]


def _times(cell: Cell) -> Table:
    grid = new_grid()
    for name, spent, held in facts.stages(cell):
        grid.add_row(styled(name, "dim"), styled(spent), styled(held))
    grid.add_row(styled("harness overhead", "dim"), styled(text.seconds(facts.overhead(cell))))
    peak = cell.peak_memory
    grid.add_row(
        styled("total" if peak is None else "total, peak", "bold"),
        styled(text.seconds(cell.seconds), "bold"),
        styled("" if peak is None else text.memory(peak), "bold"),
    )
    return grid


def _packages(run: Run) -> str:
    return ", ".join(f"{name} {version}" for name, version in facts.packages(run))
