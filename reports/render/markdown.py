"""A run as GitHub-flavoured Markdown of limited length, for job summaries and comments."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from harness.record.run import Run
from reports import facts, text
from reports.columns import columns, lines
from reports.outcome import CellOutcome
from reports.render import models, pairs, passes
from reports.summary import CellRow, RunSummary, Totals, largest_stage, slowest_stage
from reports.verdict import RunVerdict, VerdictKind

#: A GitHub comment takes 65,536 characters.
LENGTH = 60_000
PARAGRAPH = "\n\n"

FAILURES_SHOWN = 20
_GAPS_SHOWN = 20
_PAIRS_SHOWN = 40
_MISSING_SHOWN = 10
_MODELS_SHOWN = 40
_SLOWEST_SHOWN = 10
_LARGEST_SHOWN = 10
_OPS_SHOWN = 120
_SIGNS = {VerdictKind.PASSED: "✅", VerdictKind.FAILED: "❌"}


class Bounded:
    """A page of limited length that names the parts it left out."""

    def __init__(self, length: int = LENGTH) -> None:
        self.length = length - 500  # space for the notes on omitted parts
        self._made = ""
        self._left_out: list[str] = []

    def add(self, part: str, *, name: str = "") -> None:
        """Append a paragraph; one with a name is left out as a whole when it does not fit."""
        if not part:
            return
        if name and len(self._made) + len(part) > self.length:
            self._left_out.append(name)
        else:
            self._made += f"{self._made and PARAGRAPH}{part}"

    @property
    def text(self) -> str:
        """The page so far."""
        made = self._made
        if len(made) > self.length:
            # Cut at the end of a line, because half a table row breaks the following text.
            made = made[: made.rfind("\n", 0, self.length)] + "\n\n*Cut for length.*"
        if self._left_out:
            names = text.clean(", ".join(self._left_out), 400)
            made += f"\n\n*Left out for length: {names}.*"
        return made + "\n"


def render(run: Run | RunSummary, against: Run | RunSummary | None = None) -> str:
    """The whole report. Sections that do not fit in :data:`LENGTH` are left out and named.

    Args:
        run: the run to render.
        against: another run with which the models are compared.
    """
    found = RunSummary.from_run(run)
    page = Bounded()
    for part in (_header(found), _totals(found), _failures(found), _missing(found)):
        page.add(part)
    rest = {
        "Models": _models(
            models.collect_models(found, None if against is None else RunSummary.from_run(against))
        ),
        "Limitations by reason": _gaps(found),
        "The same weights on two backends": _pairs(found),
        "Without and with passes": _passes(found),
        "Operators by target": _matrix(found),
        "Delegation": _delegation(found),
        "Slowest cells": _slowest(found),
        "Largest cells": _largest(found),
        "Environment": _environment(found.run),
    }
    for title, body in rest.items():
        page.add(f"## {title}\n\n{body}" if body else "", name=title)
    return page.text


def prose(value: str, limit: int | None = None) -> str:
    """Text from a record as one line of plain Markdown text, with all markup escaped."""
    shown = html.escape(text.line(value, limit), quote=False)
    shown = re.sub(r"([\\`*_{}\[\]|~#!$])", r"\\\1", shown)
    # A zero-width space keeps "@name" from notifying the user of that name.
    return re.sub(r"(?<!\w)@(?=\w)", "@\u200b", shown)


def code(value: str, limit: int | None = None) -> str:
    """Text from a record as code, valid inside table cells too."""
    shown = text.line(value, limit)
    if not shown:
        return ""
    if not re.search(r"[`|\\]", shown):
        return f"`{shown}`"
    # Neither backticks nor pipes can be written inside a code span of a table; entities can.
    entities = re.sub(r"[^\w\s.,:;/=+()'-]", lambda match: f"&#{ord(match[0])};", shown)
    return f"<code>{entities.replace('_', '&#95;')}</code>"


def link(url: str) -> str:
    """A link if the text is a plain web address, else the text itself."""
    if re.fullmatch(r"https?://[^\s<>|`\\]{1,500}", url):
        return f"<{url}>"
    return code(url, 300)


def table(header: Sequence[str], body: Iterable[Sequence[str]], numbers: Iterable[str] = ()) -> str:
    """A table; ``numbers`` are the columns to align right."""
    right = set(numbers)
    rule = ["--:" if name in right else ":--" for name in header]
    lines = [header, rule, *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _header(found: RunSummary) -> str:
    judged, run = RunVerdict.from_run(found), found.run
    sign = _SIGNS.get(judged.kind, "⚠️")
    lines = [f"# {sign} {judged.headline}: {prose(facts.title(run))}", f"{prose(judged.sentence)}."]
    if judged.concerns:
        shown = [f"> - {prose(concern)}" for concern in judged.concerns[:20]]
        lines.append("\n".join(["> [!WARNING]", *shown, *more(len(judged.concerns) - 20, "> - ")]))
    known = dict(facts.facts(run))
    brief = [
        f"{name.lower()} {code(known[name])}"
        for name in ("Seed", "Commit", "Started", "Took")
        if name in known
    ]
    versions = ", ".join(code(f"{name} {version}") for name, version in facts.packages(run))
    lines.append(" · ".join([*brief, *([versions] if versions else [])]))
    return "\n\n".join(lines)


def _totals(found: RunSummary) -> str:
    totals = [line.total for line in lines(found.totals)]
    if not totals:
        return "## Targets\n\nThe run is empty: no target was selected."
    always = (
        CellOutcome.PASSED,
        CellOutcome.UNDELEGATED,
        CellOutcome.UNAVAILABLE,
        CellOutcome.NOT_RUN,
    )
    shown = [
        outcome
        for outcome in CellOutcome
        if outcome in always or any(total.counts[outcome] for total in totals)
    ]
    names = [f"{outcome.symbol} {outcome.label}" for outcome in shown]
    header = ["Target", "Passed of rated", "Cells", *names, "Time"]
    body = [_totals_row(total, shown) for total in totals]
    note = (
        "Rated are all cells except unsupported ones. Unavailable and not-run cells count as "
        "rated, so that not running a cell cannot raise the rate."
    )
    for outcome in (CellOutcome.DEGRADED, CellOutcome.VACUOUS):
        if outcome in shown:
            note += f" {outcome.label.capitalize()}: {outcome.meaning}."
    return f"## Targets\n\n{table(header, body, header[2:])}\n\n{note}"


def _totals_row(total: Totals, shown: Sequence[CellOutcome]) -> list[str]:
    rate = f"**{total.rate_text}**" if total.red else total.rate_text
    counts = [
        f"**{number:,}**" if outcome.is_red and number else f"{number:,}"
        for outcome, number in ((outcome, total.counts[outcome]) for outcome in shown)
    ]
    return [code(total.target), rate, f"{total.cells:,}", *counts, text.seconds(total.seconds)]


def _failures(found: RunSummary) -> str:
    failures = found.failures
    if not failures:
        return ""
    body = []
    for row in failures[:FAILURES_SHOWN]:
        if row.cell is None:
            continue
        what = [code(row.cell.error or "", 300)]
        what += [
            prose(facts.describe_worst_output(row.cell), 300),
            prose(facts.divergence(row.cell), 600),
        ]
        what += [prose(facts.delegation(row.cell)), prose(facts.fallback_ops(row.cell), 300)]
        what += [prose(line, 900) for line in facts.known_issues(row.cell)]
        body.append(
            [
                code(row.id, 200),
                f"{row.outcome.symbol} {row.words}",
                code(row.cell.stage or ""),
                "<br>".join([*filter(None, what), code(row.cell.repro, 300)]),
            ]
        )
    shown = table(["Cell", "Outcome", "Stage", "Error, numerics, delegation, repro"], body)
    title = f"## Red: {text.count(len(failures), 'cell')}, worst first"
    return "\n\n".join([title, shown, *more(len(failures) - FAILURES_SHOWN)])


def _missing(found: RunSummary) -> str:
    if not (missing := found.missing):
        return ""
    title = f"## Not run: {text.count(len(missing), 'expected cell')} without a record"
    shown = [f"- {code(name, 200)}" for name in missing[:_MISSING_SHOWN]]
    return "\n".join([title, "", *shown, *more(len(missing) - _MISSING_SHOWN, "- ")])


def _gaps(found: RunSummary) -> str:
    gaps = found.limitation_groups
    if not gaps:
        return ""
    body = [
        [
            f"{len(gap.rows):,}",
            ", ".join(f"{number:,} {outcome.label}" for outcome, number in gap.counts.items()),
            prose(gap.reason, 300) + (f" {link(gap.link)}" if gap.link else ""),
            " ".join(code(target) for target in gap.targets[:12]),
        ]
        for gap in gaps[:_GAPS_SHOWN]
    ]
    shown = table(["Cells", "Outcome", "Reason", "Targets"], body, ["Cells"])
    return "\n\n".join([shown, *more(len(gaps) - _GAPS_SHOWN)])


def _pairs(found: RunSummary) -> str:
    rows = list(pairs.rows(found))
    body = [[code(case, 200), *map(prose, rest)] for case, *rest in rows[:_PAIRS_SHOWN]]
    if not body:
        return ""
    shown = table(pairs.HEADER, body, pairs.HEADER[3:6])
    return "\n\n".join([shown, *more(len(rows) - _PAIRS_SHOWN)])


def _passes(found: RunSummary) -> str:
    rows = passes.rows(found)
    body = [[code(case, 200), *map(prose, rest)] for case, *rest in rows[:_PAIRS_SHOWN]]
    if not body:
        return ""
    shown = table(passes.HEADER, body, passes.NUMBERS)
    return "\n\n".join([shown, *more(len(rows) - _PAIRS_SHOWN)])


def _models(found: models.Models) -> str:
    listed = [model for members in found.cases.values() for model in members]
    if not listed:
        return ""
    body = [
        [
            code(model.row.id, 200),
            f"{model.row.outcome.symbol} {model.row.words}"
            + (f" (was {model.was.label})" if model.was else ""),
            prose(model.runtime),
            *(prose(models.format_figure(figure)) for figure in model.figures),
            prose(model.diverges) + (f" (was: {prose(model.diverged)})" if model.diverged else ""),
        ]
        for model in listed[:_MODELS_SHOWN]
    ]
    numbers = [measure.name for measure in models.MEASURES]
    header = ["Cell", "Outcome", "Runtime", *numbers, "First diverging node"]
    notes = [f"Compared with {code(found.against)}."] if found.against else []
    notes.append(models.NOTE)
    if found.times_differ:
        notes.append(models.OTHER_HOST)
    if found.gone:
        notes.append(f"Only in that run: {' '.join(code(name, 200) for name in found.gone[:12])}")
    shown = table(header, body, numbers)
    return "\n\n".join([shown, *more(len(listed) - _MODELS_SHOWN), " ".join(notes)])


def _matrix(found: RunSummary) -> str:
    groups: dict[str, dict[str, Counter[CellOutcome]]] = {}
    shown = columns(found.targets)
    column_of = {target: column.name for column in shown for target in column.targets}
    for row in found.rows:
        squares = groups.setdefault(row.op or row.suite or row.case, {})
        squares.setdefault(column_of[row.target], Counter())[row.outcome] += 1
    if not groups:
        return ""
    names = sorted(groups)
    body = [
        [code(name, 60), *(_square(groups[name].get(column.name)) for column in shown)]
        for name in names[:_OPS_SHOWN]
    ]
    header = ["Op", *(code(column.name) for column in shown)]
    legend = " · ".join(f"{outcome.symbol} {outcome.label}" for outcome in CellOutcome)
    note = f"Passed of rated cases, with the symbol of the worst outcome. {legend}"
    return "\n\n".join([table(header, body), *more(len(names) - _OPS_SHOWN), note])


def _square(counts: Counter[CellOutcome] | None) -> str:
    if not counts:
        return ""
    total = Totals("", counts)
    worst = max(counts, key=lambda outcome: outcome.badness)
    return f"{worst.symbol} {total.passed}/{total.rated}" if total.conclusive else worst.symbol


def _delegation(found: RunSummary) -> str:
    body = [
        [
            code(part.target),
            f"{part.cells:,}",
            f"{part.undelegated_cells:,}",
            f"{part.delegates:,}",
            f"{part.delegated_nodes:,}",
            f"{part.undelegated_nodes:,}",
            prose(text.calls(part.fallback_ops)),
        ]
        for part in found.delegation_totals
    ]
    header = ["Target", "Lowered cells", "Nothing delegated", "Delegates", "Delegated nodes",
              "Fallback nodes", "Fallback operators"]  # fmt: skip
    return table(header, body, header[1:6]) if body else ""


def _slowest(found: RunSummary) -> str:
    body = [_slow(row) for row in found.slowest(_SLOWEST_SHOWN)]
    return table(["Cell", "Time", "Longest stage"], body, ["Time"]) if body else ""


def _slow(row: CellRow) -> list[str]:
    if row.cell is None:
        return []
    stage = slowest_stage(row.cell)
    longest = f"{code(stage[0])} {text.seconds(stage[1])}" if stage else ""
    return [code(row.id, 200), text.seconds(row.cell.seconds), longest]


def _largest(found: RunSummary) -> str:
    body = []
    for row in found.largest(_LARGEST_SHOWN):
        if row.cell is not None and (stage := largest_stage(row.cell)) is not None:
            body.append([code(row.id, 200), text.memory(stage[1]), code(stage[0])])
    return table(["Cell", "Memory", "In stage"], body, ["Memory"]) if body else ""


def _environment(run: Run) -> str:
    pairs = [*facts.facts(run), *facts.packages(run)]
    states = [(f"backend {name}", f"{state}: {why}") for name, state, why in
              facts.backend_states(run)]  # fmt: skip
    return table(["", ""], [[prose(name), code(value)] for name, value in [*pairs, *states]])


def more(number: int, mark: str = "") -> list[str]:
    """A line with the number of items that a shortened list leaves out, if any."""
    return [f"{mark}and {number:,} more"] if number > 0 else []
