"""A comparison of releases as one HTML page that needs nothing else."""

from __future__ import annotations

from collections import defaultdict

from reports import jinja
from reports.comparison.releases.compare import Step
from reports.comparison.releases.words import (
    COLUMNS,
    NOTE,
    describe_improvement,
    describe_move,
    headline,
    row_figures,
)
from reports.comparison.snapshot import CellFacts

_CELLS = 500


def render(found: list[Step]) -> str:
    """The whole page. Text of records reaches it through Jinja2 with autoescape alone."""
    names = [found[0].before, *(step.after for step in found)] if found else []
    return (
        jinja.environment()
        .get_template("releases.html.j2")
        .render(
            css=jinja.sources("base.css", "releases.css"),
            names=names,
            columns=COLUMNS,
            note=NOTE,
            steps=[_view(step) for step in found],
        )
    )


def _view(step: Step) -> dict[str, object]:
    lists = {
        "Newly failing": _causes(step.lost),
        "Newly passing": _causes(step.gained),
        "Worse otherwise": _grouped(
            [(one.kind.label, one.target, one.id, one.description) for one in step.worse]
        ),
        "Better otherwise": _grouped(
            [
                (describe_improvement(one)[0], one.target, one.id, describe_improvement(one)[1])
                for one in step.better
            ]
        ),
    }
    return {
        "before": step.before,
        "after": step.after,
        "headline": headline(step),
        "tone": "bad" if step.lost else "good",
        "rows": [row_figures(row) for row in step.rows],
        "lists": {title: groups for title, groups in lists.items() if groups},
        "remarks": step.remarks,
    }


def _causes(pairs: list[tuple[CellFacts, CellFacts]]) -> list[dict[str, object]]:
    return _grouped(
        [
            (describe_move(before, after), after.target, f"{after.case}@{after.target}", "")
            for before, after in pairs
        ]
    )


def _grouped(lines: list[tuple[str, str, str, str]]) -> list[dict[str, object]]:
    """Cells with what is said of each, by what is said of all and target, the most first."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for what, target, cell, said in lines:
        groups[what, target].append((cell, said))
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
