"""The main data file of the site: words, and an entry for each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.record.run import Run
from harness.record.severity import Severity
from reports import facts, summary, text
from reports.comparison.diff import ChangeKind
from reports.comparison.snapshot import RunSnapshot
from reports.outcome import CellOutcome
from reports.render import views
from reports.site.columns import LETTERS
from reports.site.shared import compute_scores
from reports.summary import Totals
from reports.verdict import RunVerdict

#: Tone and sign of each kind of change; the sign repeats the information of the colour.
TONES = {
    kind: ("worse", "▼") if kind.is_worse
    else ("better", "▲") if kind.rank > ChangeKind.CHANGED.rank
    else ("other", "◆")
    for kind in ChangeKind
}  # fmt: skip


def list_rules() -> dict[str, Any]:
    """Collect words and signs that the scripts share with the other reports."""
    return {
        "outcomes": [
            {
                "value": outcome.value,
                "letter": LETTERS[outcome],
                "symbol": outcome.symbol,
                "label": outcome.label,
                "meaning": outcome.meaning,
                "red": outcome.is_red,
                "passed": outcome.is_pass,
                "rated": outcome.is_rated,
                "conclusive": outcome.is_conclusive,
                "badness": outcome.badness,
            }
            for outcome in CellOutcome
        ],
        "kinds": [
            {
                "value": kind.value,
                "label": kind.label,
                "meaning": kind.meaning,
                "worse": kind.is_worse,
                "tone": TONES[kind][0],
                "sign": TONES[kind][1],
            }
            for kind in ChangeKind
        ],
        "severities": [None, *(severity.value for severity in Severity)],
        "numerics": views.NUMERICS,
        "no_target": summary.NO_TARGET,
    }


def list_entry(
    run: Run,
    verdict: RunVerdict,
    total: Totals,
    targets: Sequence[Totals],
    *,
    name: str,
    key: str,
) -> dict[str, Any]:
    """Make an entry of the list of runs: its verdict, and its totals by outcome.

    Args:
        run: the run.
        verdict: verdict of the run.
        total: totals of the whole run.
        targets: totals of each target.
        name: generated name of its files.
        key: its name in links and lists, unique in the site.
    """
    info = run.info
    return {
        "file": name,
        "key": key,
        "path": text.line(str(run.path), 300),
        "started": text.line(info.started, 40),
        "day": text.line(info.started, 40).replace("T", " ")[:16],
        "took": facts.duration(run),
        "commit": text.line(facts.commit(run), 60),
        "host": text.line(info.environment.host, 60),
        "headline": verdict.headline.capitalize(),
        "sentence": text.line(verdict.sentence),
        "tone": verdict.tone,
        "mark": verdict.mark,
        "complete": run.is_complete,
        "counts": [total.counts[outcome] for outcome in CellOutcome],
        "cells": total.cells,
        "passed": total.passed,
        "rated": total.rated,
        "red": total.red,
        "rate": total.pass_rate,
        "rate_text": total.rate_text,
        "backends": [
            (text.line(each, 80), *score) for each, score in compute_scores(targets).items()
        ],
    }


def describe_run_views(run: Run, verdict: RunVerdict, snapshot: RunSnapshot) -> dict[str, Any]:
    """Collect facts about a run for its views, besides its cells."""
    targets = dict.fromkeys([*run.info.targets, *snapshot.targets])
    return {
        "facts": facts.facts(run),
        "packages": facts.packages(run),
        "backends": facts.backend_states(run),
        "concerns": verdict.concerns,
        "targets": [text.line(name, 120) for name in targets],
    }


def make_unique_key(name: str, taken: set[str]) -> str:
    """Make a unique key from the name of a run; append a number if the name is taken."""
    made, number = name, 2
    while made in taken:
        made, number = f"{name}~{number}", number + 1
    taken.add(made)
    return made
