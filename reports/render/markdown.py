"""A run as GitHub-flavoured Markdown of bounded length, for job summaries and comments."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from harness.record.run import Run
from reports import facts, text
from reports.columns import columns, lines
from reports.outcome import Outcome
from reports.render import models, pairs, passes
from reports.summary import Row, Summary, Totals, largest_stage, slowest_stage
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
    """A page that stays within a length and says what it left out."""

    def __init__(self, length: int = LENGTH) -> None:
        self.length = length - 500  # what the notes on cuts may take
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
            # Cut at a line, or half a table row would swallow what follows.
            made = made[: made.rfind("\n", 0, self.length)] + "\n\n*Cut for length.*"
        if self._left_out:
            names = text.clean(", ".join(self._left_out), 400)
            made += f"\n\n*Left out for length: {names}.*"
        return made + "\n"


def render(run: Run | Summary, against: Run | Summary | None = None) -> str:
    """The whole report; what does not fit in :data:`LENGTH` is left out and named.

    Args:
        run: what it shows.
        against: another run, which its models are held against.
    """
    found = Summary.of(run)
    page = Bounded()
    for part in (_header(found), _totals(found), _failures(found), _missing(found)):
        page.add(part)
    rest = {
        "Models": _models(models.models(found, None if against is None else Summary.of(against))),
        "Limitations by reason": _gaps(found),
        "The same weights on two backends": _pairs(found),
        "Without and with passes": _passes(found),
        "Operators by target": _matrix(found),
        "Left over by the partitioners": _delegation(found),
        "Slowest cells": _slowest(found),
        "Largest cells": _largest(found),
        "Environment": _environment(found.run),
    }
    for title, body in rest.items():
        page.add(f"## {title}\n\n{body}" if body else "", name=title)
    return page.text


def prose(value: str, limit: int | None = None) -> str:
    """Text from a record as plain Markdown text, on one line, with nothing in it acting."""
    shown = html.escape(text.line(value, limit), quote=False)
    shown = re.sub(r"([\\`*_{}\[\]|~#!$])", r"\\\1", shown)
    # A zero-width space keeps "@name" from notifying whoever has that name.
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
    """A link when it is a plain web address, else just its text."""
    if re.fullmatch(r"https?://[^\s<>|`\\]{1,500}", url):
        return f"<{url}>"
    return code(url, 300)


def table(header: Sequence[str], body: Iterable[Sequence[str]], numbers: Iterable[str] = ()) -> str:
    """A table; ``numbers`` are the columns to align right."""
    right = set(numbers)
    rule = ["--:" if name in right else ":--" for name in header]
    lines = [header, rule, *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _header(found: Summary) -> str:
    judged, run = RunVerdict.of(found), found.run
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


def _totals(found: Summary) -> str:
    totals = [line.total for line in lines(found.totals)]
    if not totals:
        return "## Targets\n\nThe run is empty: no target was selected."
    always = (Outcome.PASSED, Outcome.UNDELEGATED, Outcome.UNAVAILABLE, Outcome.NOT_RUN)
    shown = [
        outcome
        for outcome in Outcome
        if outcome in always or any(total.counts[outcome] for total in totals)
    ]
    names = [f"{outcome.symbol} {outcome.label}" for outcome in shown]
    header = ["Target", "Passed of rated", "Cells", *names, "Time"]
    body = [_totals_row(total, shown) for total in totals]
    note = (
        "Rated are all cells but the unsupported ones; unavailable and not-run cells are in "
        "it, so that not running cannot raise the rate."
    )
    if Outcome.VACUOUS in shown:
        note += f" {Outcome.VACUOUS.label.capitalize()}: {Outcome.VACUOUS.meaning}."
    return f"## Targets\n\n{table(header, body, header[2:])}\n\n{note}"


def _totals_row(total: Totals, shown: Sequence[Outcome]) -> list[str]:
    rate = f"**{total.rate_text}**" if total.red else total.rate_text
    counts = [
        f"**{number:,}**" if outcome.is_red and number else f"{number:,}"
        for outcome, number in ((outcome, total.counts[outcome]) for outcome in shown)
    ]
    return [code(total.target), rate, f"{total.cells:,}", *counts, text.seconds(total.seconds)]


def _failures(found: Summary) -> str:
    failures = found.failures
    if not failures:
        return ""
    body = []
    for row in failures[:FAILURES_SHOWN]:
        if row.cell is None:
            continue
        what = [code(row.cell.error or "", 300)]
        what += [prose(facts.wrongness(row.cell), 300), prose(facts.divergence(row.cell), 600)]
        what += [prose(facts.delegation(row.cell)), prose(facts.left_over(row.cell), 300)]
        what += [prose(line, 900) for line in facts.known(row.cell)]
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


def _missing(found: Summary) -> str:
    if not (missing := found.missing):
        return ""
    title = f"## Not run: {text.count(len(missing), 'expected cell')} without a record"
    shown = [f"- {code(name, 200)}" for name in missing[:_MISSING_SHOWN]]
    return "\n".join([title, "", *shown, *more(len(missing) - _MISSING_SHOWN, "- ")])


def _gaps(found: Summary) -> str:
    gaps = found.gaps
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


def _pairs(found: Summary) -> str:
    rows = list(pairs.rows(found))
    body = [[code(case, 200), *map(prose, rest)] for case, *rest in rows[:_PAIRS_SHOWN]]
    if not body:
        return ""
    shown = table(pairs.HEADER, body, pairs.HEADER[3:6])
    return "\n\n".join([shown, *more(len(rows) - _PAIRS_SHOWN)])


def _passes(found: Summary) -> str:
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
            *(prose(models.spelled(figure)) for figure in model.figures),
            prose(model.diverges) + (f" (was: {prose(model.diverged)})" if model.diverged else ""),
        ]
        for model in listed[:_MODELS_SHOWN]
    ]
    numbers = [measure.name for measure in models.MEASURES]
    header = ["Cell", "Outcome", "Runtime", *numbers, "First wrong node"]
    notes = [f"Against {code(found.against)}. {models.NOTE}" if found.against else models.NOTE]
    if found.times_differ:
        notes.append(models.OTHER_HOST)
    if found.gone:
        notes.append(f"Only there: {' '.join(code(name, 200) for name in found.gone[:12])}")
    shown = table(header, body, numbers)
    return "\n\n".join([shown, *more(len(listed) - _MODELS_SHOWN), " ".join(notes)])


def _matrix(found: Summary) -> str:
    groups: dict[str, dict[str, Counter[Outcome]]] = {}
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
    legend = " · ".join(f"{outcome.symbol} {outcome.label}" for outcome in Outcome)
    note = f"Passed of rated cases, and the sign of the worst. {legend}"
    return "\n\n".join([table(header, body), *more(len(names) - _OPS_SHOWN), note])


def _square(counts: Counter[Outcome] | None) -> str:
    if not counts:
        return ""
    total = Totals("", counts)
    worst = max(counts, key=lambda outcome: outcome.badness)
    return f"{worst.symbol} {total.passed}/{total.rated}" if total.conclusive else worst.symbol


def _delegation(found: Summary) -> str:
    body = [
        [
            code(part.target),
            f"{part.cells:,}",
            f"{part.without:,}",
            f"{part.delegates:,}",
            f"{part.delegated_nodes:,}",
            f"{part.undelegated_nodes:,}",
            prose(text.calls(part.left_over)),
        ]
        for part in found.partitions
    ]
    header = ["Target", "Lowered cells", "Nothing delegated", "Delegates", "Delegated nodes",
              "Left-over nodes", "Left-over ops"]  # fmt: skip
    return table(header, body, header[1:6]) if body else ""


def _slowest(found: Summary) -> str:
    body = [_slow(row) for row in found.slowest(_SLOWEST_SHOWN)]
    return table(["Cell", "Time", "Longest stage"], body, ["Time"]) if body else ""


def _slow(row: Row) -> list[str]:
    if row.cell is None:
        return []
    stage = slowest_stage(row.cell)
    longest = f"{code(stage[0])} {text.seconds(stage[1])}" if stage else ""
    return [code(row.id, 200), text.seconds(row.cell.seconds), longest]


def _largest(found: Summary) -> str:
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
    """The line that says how many items a bounded list leaves out, if any."""
    return [f"{mark}and {number:,} more"] if number > 0 else []
