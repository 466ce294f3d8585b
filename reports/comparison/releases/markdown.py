"""Render a comparison of releases as GitHub-flavoured Markdown of bounded length."""

from __future__ import annotations

from collections import defaultdict

from reports import text
from reports.comparison.diff import Change
from reports.comparison.releases.compare import Step
from reports.comparison.releases.words import (
    COLUMNS,
    NOTE,
    describe_improvement,
    describe_move,
    row_figures,
    summarize_step,
)
from reports.comparison.snapshot import CellFacts
from reports.render.markdown import Bounded, code, more, prose, table

_CAUSES = 30
_EXAMPLES = 3
_REASON = 300


def render(found: list[Step], *, made: str = "") -> str:
    """Render the comparison; the text names parts that it omits for length.

    Args:
        found: the steps, oldest first.
        made: the command that produced the runs; empty if unknown.
    """
    page = Bounded()
    page.add("# Changes between releases")
    if made:
        page.add(f"Generated from the runs of {code(made)}.")
    page.add(NOTE)
    for step in found:
        name = f"{step.before} → {step.after}"
        page.add(f"## {name}\n\n{prose(summarize_step(step))}.")
        page.add(table(list(COLUMNS), [list(map(prose, row_figures(row))) for row in step.rows]))
        for title, pairs in (("Newly failing", step.lost), ("Newly passing", step.gained)):
            if pairs:
                page.add(f"### {title}\n\n{_causes(pairs)}", name=f"{title}, {name}")
        worse = [(one, one.kind.label, one.description) for one in step.worse]
        good = [(one, *describe_improvement(one)) for one in step.better]
        for title, changes in (
            ("Other changes for the worse", worse),
            ("Other changes for the better", good),
        ):
            if changes:
                page.add(f"### {title}\n\n{_changes(changes)}", name=f"{title}, {name}")
        page.add("\n".join(f"- {prose(remark)}" for remark in step.remarks))
    return page.text


def _causes(pairs: list[tuple[CellFacts, CellFacts]]) -> str:
    """Group cells by target and change, largest group first."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for before, after in pairs:
        groups[after.target, describe_move(before, after)].append(after.case)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    body = [
        [code(target), f"{len(cases):,}", prose(description, _REASON), _examples(cases)]
        for (target, description), cases in ordered[:_CAUSES]
    ]
    head = ["target", "cells", "change", "examples"]
    return "\n\n".join([table(head, body), *more(len(ordered) - _CAUSES)])


def _changes(changes: list[tuple[Change, str, str]]) -> str:
    """Group changes of cells whose verdict stays the same by kind and target."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for change, kind, description in changes:
        groups[kind, change.target].append(f"{code(change.id, 120)}: {prose(description, _REASON)}")
    ordered = sorted(groups.items(), key=lambda item: (item[0][0], -len(item[1])))
    body = [
        [prose(kind), code(target), f"{len(some):,}", some[0]]
        for (kind, target), some in ordered[:_CAUSES]
    ]
    head = ["kind", "target", "cells", "example"]
    return "\n\n".join([table(head, body), *more(len(ordered) - _CAUSES)])


def _examples(cases: list[str]) -> str:
    shown = ", ".join(code(case, 120) for case in cases[:_EXAMPLES])
    left = len(cases) - _EXAMPLES
    return f"{shown} and {text.count(left, 'more', 'more')}" if left > 0 else shown
