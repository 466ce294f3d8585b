"""Render ``index.html``: verdict and totals of the newest run, and the frame of all views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.record.run import Run
from reports import facts, jinja, text
from reports.columns import lines
from reports.comparison.diff import ChangeKind, Diff
from reports.site import manifest
from reports.site.shared import CaseSplit, Mismatches, divide_mismatches
from reports.summary import FailureGroup, RunSummary
from reports.verdict import RunVerdict

_GROUPS_SHOWN = 12
_CELLS_SHOWN = 6
_MISSING_SHOWN = 50


def count_news(found: Diff, key: str) -> dict[str, Any]:
    """Count the changes since the earlier run ``key``, by kind, worst kind first."""
    counts = found.counts
    return {
        "key": key,
        "counts": [(kind, counts[kind]) for kind in ChangeKind if counts[kind]],
        "environment": [text.line(change.name, 80) for change in found.environment],
    }


def render(
    run: Run | RunSummary,
    runs: list[dict[str, Any]],
    news: dict[str, Any] | None,
    data: str,
    remarks: list[str],
    *,
    pages: Mapping[str, str],
) -> str:
    """Render the page.

    Args:
        run: the newest run, or its summary.
        runs: the list of all runs, newest first, with their totals.
        news: the result of :func:`count_news`; None without an earlier run.
        data: name of the subfolder with the data files.
        remarks: reasons why the site omits runs, one line each.
        pages: files of further pages in the folder of the data, by title.
    """
    found = RunSummary.from_run(run)
    causes = found.failure_groups
    divided = divide_mismatches(found.rows)
    return (
        jinja.environment()
        .get_template("site/index.html.j2")
        .render(
            title=facts.title(found.run),
            key=runs[0]["key"],
            verdict=RunVerdict.from_run(found),
            facts=facts.facts(found.run),
            packages=facts.packages(found.run),
            backends=facts.backend_states(found.run),
            overall=found.overall,
            lines=lines(found.totals),
            causes=[_cause(cause) for cause in causes[:_GROUPS_SHOWN]],
            more_causes=max(len(causes) - _GROUPS_SHOWN, 0),
            red=sum(len(cause.rows) for cause in causes),
            divided=divided,
            divided_rows=_divided(divided),
            missing=found.missing[:_MISSING_SHOWN],
            missing_count=len(found.missing),
            runs=runs,
            news=news,
            tones=manifest.TONES,
            data=data,
            remarks=remarks,
            pages=pages,
        )
    )


def _divided(found: Mismatches) -> list[tuple[str, str, list[CaseSplit]]]:
    """Rows of the table: backends, likely cause, cases; longest first."""
    alone = sorted(found.alone.items(), key=lambda item: -len(item[1]))
    rows = [(f"only {name}", f"the backend {text.line(name, 60)}", each) for name, each in alone]
    if found.shared:
        rows.insert(0, ("all backends", "the case or its oracle", found.shared))
    return rows


def _cause(cause: FailureGroup) -> dict[str, Any]:
    return {
        "outcome": cause.outcome,
        "words": cause.words,
        "stage": cause.stage,
        "error": text.clean(cause.error, 1_000),
        "count": len(cause.rows),
        "targets": sorted({row.target for row in cause.rows}),
        "cells": [(row.id, text.line(row.id, 300)) for row in cause.rows[:_CELLS_SHOWN]],
        "more": max(len(cause.rows) - _CELLS_SHOWN, 0),
    }
