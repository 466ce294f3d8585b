"""Render a comparison of releases as one self-contained HTML page."""

from __future__ import annotations

from collections import defaultdict

from reports import jinja
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

_CELLS = 500


def render(found: list[Step]) -> str:
    """Render the page. Jinja2 escapes all text from records."""
    names = [found[0].before, *(step.after for step in found)] if found else []
    return jinja.render(
        "releases.html.j2",
        ["base.css", "releases.css"],
        names=names,
        columns=COLUMNS,
        note=NOTE,
        steps=[_view(step) for step in found],
    )


def _view(step: Step) -> dict[str, object]:
    lists = {
        "Newly failing": _causes(step.lost),
        "Newly passing": _causes(step.gained),
        "Other changes for the worse": _group(
            [(one.kind.label, one.target, one.id, one.description) for one in step.worse]
        ),
        "Other changes for the better": _group(
            [
                (describe_improvement(one)[0], one.target, one.id, describe_improvement(one)[1])
                for one in step.better
            ]
        ),
    }
    return {
        "before": step.before,
        "after": step.after,
        "headline": summarize_step(step),
        "tone": "bad" if step.lost else "good",
        "rows": [row_figures(row) for row in step.rows],
        "lists": {title: groups for title, groups in lists.items() if groups},
        "remarks": step.remarks,
    }


def _causes(pairs: list[tuple[CellFacts, CellFacts]]) -> list[dict[str, object]]:
    return _group(
        [
            (describe_move(before, after), after.target, f"{after.case}@{after.target}", "")
            for before, after in pairs
        ]
    )


def _group(lines: list[tuple[str, str, str, str]]) -> list[dict[str, object]]:
    """Group cells with their details by change and target, largest group first."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for what, target, cell, description in lines:
        groups[what, target].append((cell, description))
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return [
        {
            "what": what,
            "target": target,
            "number": len(cells),
            "cells": cells[:_CELLS],
            "left": max(0, len(cells) - _CELLS),
        }
        for (what, target), cells in ordered
    ]
