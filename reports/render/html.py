"""A run as one self-contained HTML page: no server, no network, no other file.

Text of records reaches the page in two ways only: through Jinja2 with autoescape, and as JSON with
``<``, ``>`` and ``&`` escaped, from which the script sets text nodes. A content security policy
with the hash of the script is a second protection.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from harness.record.run import Run
from reports import facts, jinja, text
from reports.columns import Column, columns, lines
from reports.outcome import CellOutcome
from reports.render import models, pairs, passes, views
from reports.summary import CellRow, RunSummary, largest_stage, slowest_stage
from reports.verdict import RunVerdict

_GROUPS_SHOWN = 60
_OPEN_CELLS = 40
_FREQUENT, _EXAMPLES = 5, 3
_MISSING_SHOWN = 50
_GAPS_SHOWN = 100
_FALLBACK_SHOWN = 40
_PASSES_SHOWN = 400
_SLOWEST_SHOWN = 15
_LARGEST_SHOWN = 15
_FEW = 24


def render(run: Run | RunSummary, against: Run | RunSummary | None = None) -> str:
    """The whole page.

    Args:
        run: the run to render.
        against: another run with which the models are compared.
    """
    found = RunSummary.from_run(run)
    run = found.run
    rows = found.rows
    position = {row.id: at for at, row in enumerate(rows)}
    texts = views.Texts()
    failures = found.failures
    # Failures first, because the budget for tracebacks may run out.
    seen = {row.id: views.cell_view(row, run, texts) for row in failures}
    cells = [seen.get(row.id) or views.cell_view(row, run, texts) for row in rows]
    shown = columns(found.targets)
    overall = found.overall
    changed = passes.rows(found)
    script = jinja.sources("dom.js", "cell.js", "page.js")
    return (
        jinja.environment()
        .get_template("page.html.j2")
        .render(
            title=facts.title(run),
            verdict=RunVerdict.from_run(found),
            facts=facts.facts(run),
            packages=facts.packages(run),
            backends=facts.backend_states(run),
            overall=overall,
            lines=lines(found.totals),
            causes=_causes(found, position, cells),
            red=len(failures),
            missing=found.missing[:_MISSING_SHOWN],
            missing_count=len(found.missing),
            targets=[target for column in shown for target in column.targets],
            columns=shown,
            headers=_headers(shown),
            firsts=_firsts(shown),
            few=_few(rows, cells),
            models=models.collect_models(
                found, None if against is None else RunSummary.from_run(against)
            ),
            model_groups=models.measure_groups(),
            model_measures=models.MEASURES,
            models_note=models.NOTE,
            other_host=models.OTHER_HOST,
            fallback=models.FALLBACK,
            position=position,
            matrix=views.matrix(rows, shown),
            gaps=found.limitation_groups[:_GAPS_SHOWN],
            pairs_header=pairs.HEADER,
            pairs=list(pairs.rows(found)),
            passes_header=passes.HEADER,
            passes_numbers=passes.NUMBERS,
            passes=changed[:_PASSES_SHOWN],
            passes_count=len(changed),
            partitions=found.delegation_totals,
            fallback_shown=_FALLBACK_SHOWN,
            slowest=[
                (position[row.id], row, slowest_stage(row.cell))
                for row in found.slowest(_SLOWEST_SHOWN)
                if row.cell is not None
            ],
            largest=[
                (position[row.id], row, largest_stage(row.cell))
                for row in found.largest(_LARGEST_SHOWN)
                if row.cell is not None
            ],
            data=_data(cells, texts),
            css=jinja.sources("base.css", "page.css"),
            script=script,
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )


def _data(cells: list[dict[str, Any]], texts: views.Texts) -> dict[str, Any]:
    return {
        "cells": cells,
        "texts": texts.items,
        "numerics": views.NUMERICS,
        "outcomes": {
            outcome.value: [outcome.symbol, outcome.label, outcome.meaning, outcome.is_red]
            for outcome in CellOutcome
        },
    }


def _causes(
    found: RunSummary, position: dict[str, int], cells: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Groups of failures with their cells; only the first groups are open."""
    budget = _OPEN_CELLS
    shown = []
    for cause in found.failure_groups[:_GROUPS_SHOWN]:
        members = [(position[row.id], cells[position[row.id]]) for row in cause.rows]
        # A frequent error shows a few folded cells, so that other errors stay visible.
        is_frequent = len(members) > _FREQUENT
        shown_here = _EXAMPLES if is_frequent else min(len(members), max(budget, 0))
        budget -= 0 if is_frequent else shown_here
        shown.append(
            {
                "outcome": cause.outcome,
                "words": cause.words,
                "stage": cause.stage,
                "error": text.clean(cause.error, 2_000),
                "count": len(members),
                "targets": sorted({row.target for row in cause.rows}),
                "folded": is_frequent,
                "open": members[:shown_here],
                "closed": members[shown_here:],
            }
        )
    return shown


def _few(rows: list[CellRow], cells: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The numbers of each cell, for a run of few cells such as a check of one model."""
    if len(rows) > _FEW:
        return []
    return [
        (at, row, cells[at], views.figures(row.cell))
        for at, row in enumerate(rows)
        if row.cell is not None
    ]


def _headers(shown: list[Column]) -> list[tuple[str, list[Column]]]:
    """The columns of each backend, for the two-row table head."""
    groups: dict[str, list[Column]] = {}
    for column in shown:
        groups.setdefault(column.backend, []).append(column)
    return list(groups.items())


def _firsts(shown: list[Column]) -> set[int]:
    """The first column of each backend, where the table draws a line."""
    backends = [column.backend for column in shown]
    return {at for at, name in enumerate(backends) if not at or backends[at - 1] != name}
