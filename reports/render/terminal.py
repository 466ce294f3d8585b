"""Print a run. rich is imported when something is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.record.run import Run
from reports import facts, text
from reports.columns import lines
from reports.console import new_grid, new_table, outcome_style, print_more, print_section, safe_text
from reports.outcome import CellOutcome
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
    _print_header(found, judged, out)
    _print_totals(found, out)
    _print_missing(found, out)
    _print_failures(found, out)
    _print_limitations(found, out)
    _print_models(
        models.collect_models(found, None if against is None else RunSummary.from_run(against)), out
    )
    _print_pairs(found, out)
    _print_slowest(found, out)
    _print_largest(found, out)
    verdict(judged, out)


def _print_header(found: RunSummary, judged: RunVerdict, out: Console) -> None:
    run = found.run
    out.rule(safe_text(facts.title(run), "bold"), align="left")
    grid = new_grid()
    for name, value in [
        ("Folder", str(run.path)),
        ("State", "INCOMPLETE" if found.incompleteness else "complete"),
        *facts.facts(run),
        ("Packages", format_packages(run)),
    ]:
        style = "bold yellow" if value == "INCOMPLETE" else ""
        grid.add_row(safe_text(name, "dim"), safe_text(value, style))
    out.print(grid)
    for concern in judged.concerns:
        out.print(safe_text(f"! {concern}", "yellow"))


def _print_totals(found: RunSummary, out: Console) -> None:
    totals = [line.total for line in lines(found.totals)]
    print_section(out, "Targets")
    if not totals:
        out.print(safe_text("empty: no target was selected and no cell has a record", "yellow"))
        return
    # Columns of zeros are left out; symbols as heads keep twelve columns within a terminal.
    shown = [outcome for outcome in CellOutcome if any(total.counts[outcome] for total in totals)]
    table = _make_totals_table(totals, shown)
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
    for outcome in (CellOutcome.DEGRADED, CellOutcome.VACUOUS):
        if outcome in shown:
            out.print(safe_text(f"{outcome.label}: {outcome.meaning}", "dim"))


def _make_totals_table(totals: list[Totals], shown: list[CellOutcome]) -> Table:
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


def _print_missing(found: RunSummary, out: Console) -> None:
    if not (missing := found.missing):
        return
    print_section(out, f"Not run: {text.count(len(missing), 'expected cell')} without a record")
    for name in missing[:_MISSING_SHOWN]:
        out.print(safe_text(f"? {name}", "yellow"))
    print_more(out, len(missing) - _MISSING_SHOWN)


def _print_failures(found: RunSummary, out: Console) -> None:
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


def _print_limitations(found: RunSummary, out: Console) -> None:
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


def _print_models(found: models.Models, out: Console) -> None:
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


def _print_pairs(found: RunSummary, out: Console) -> None:
    shown = list(pairs.rows(found))
    if not shown:
        return
    print_section(out, "The same weights on two backends")
    for case, targets, weights, _, relative, cosine, _ in shown:
        out.print(safe_text(case, "bold"), safe_text(f"on {targets}"))
        out.print(safe_text(f"    weights {weights}"))
        out.print(safe_text(f"    outputs differ by {relative} (rel. Frobenius), cosine {cosine}"))


def _print_slowest(found: RunSummary, out: Console) -> None:
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


def _print_largest(found: RunSummary, out: Console) -> None:
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


def format_packages(run: Run) -> str:
    """The installed packages of a run, on one line."""
    return ", ".join(f"{name} {version}" for name, version in facts.packages(run))
