"""Render a judgement as Markdown of bounded length, for a comment on a pull request."""

from __future__ import annotations

from reports import text
from reports.comparison.diff import Change
from reports.comparison.diff.markdown import changes_table, environment
from reports.comparison.diff.words import describe_kinds
from reports.comparison.gate.judge import Colour, Judgement
from reports.render.markdown import Bounded, code, more, prose, table

#: The first line; a workflow finds its own comment by it and replaces that.
MARK = "<!-- conform-gate -->"

_SHOWN = 25
_FOLDED = 50
_SIGNS = {Colour.GREEN: "✅", Colour.RED: "❌", Colour.UNJUDGED: "⚠️"}


def render(judged: Judgement) -> str:
    """Render the judgement, worst first; the text counts and names omitted parts."""
    found = judged.found
    page = Bounded()
    page.add(f"{MARK}\n## {_SIGNS[judged.colour]} Conformance gate: {judged.colour.words}")
    names = f"{code(found.before.name)} → {code(found.after.name)}"
    page.add(f"{prose(judged.sentence)}. {names}")
    page.add(_lines("Could not judge", judged.obstacles))
    page.add(_lines("Waivers", judged.waivers))
    page.add(_render_red(judged.red))
    rest = judged.red[_SHOWN:]
    page.add(_fold(f"{text.count(len(rest), 'more red change')}", _table(rest)),
             name=f"{len(rest):,} more red changes")  # fmt: skip
    page.add(_fold("Environment", environment(found)), name="environment")
    page.add(_lines("Notes", [*judged.warnings, *found.remarks]), name="remarks")
    page.add(_section("Known failures, also red in the baseline", judged.known), name="known")
    page.add(_section("Mismatches below severity_at_least", judged.mild), name="mild mismatches")
    page.add(_render_waived(judged), name="waived")
    page.add(_section("Worse, but allowed by the policy", judged.noted), name="allowed changes")
    return page.text


def _render_red(changes: list[Change]) -> str:
    if not changes:
        return ""
    shown = _render_groups(changes[:_SHOWN])
    return "\n\n".join([f"### Red: {describe_kinds(changes)}", shown])


def _render_groups(changes: list[Change]) -> str:
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(change.kind.label, []).append(change)
    return "\n\n".join(f"**{name}**\n\n{changes_table(items)}" for name, items in groups.items())


def _table(changes: list[Change]) -> str:
    if not changes:
        return ""
    return "\n\n".join([_render_groups(changes[:_FOLDED]), *more(len(changes) - _FOLDED)])


def _section(title: str, changes: list[Change]) -> str:
    return _fold(f"{title}: {describe_kinds(changes)}", _table(changes)) if changes else ""


def _render_waived(judged: Judgement) -> str:
    if not judged.waived:
        return ""
    body = [
        [
            code(change.id, 200),
            change.kind.label,
            prose(f"{waiver.reason} ({waiver.owner}, until {waiver.expires})", 300),
        ]
        for change, waiver in judged.waived[:_FOLDED]
    ]
    shown = [table(["Cell", "Kind", "Waiver"], body), *more(len(judged.waived) - _FOLDED)]
    number = text.count(len(judged.waived), "waived change")
    return _fold(number, "\n\n".join(shown))


def _lines(title: str, lines: list[str]) -> str:
    if not lines:
        return ""
    shown = [f"- {prose(line, 500)}" for line in lines[:_SHOWN]]
    return "\n".join([f"### {title}", "", *shown, *more(len(lines) - _SHOWN, "- ")])


def _fold(title: str, body: str) -> str:
    # GitHub renders the body as Markdown only between blank lines.
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>" if body else ""
