"""A degraded pass is counted and shown separately, and gated when it is new."""

from __future__ import annotations

import datetime
import io
import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from harness.record.cell import Cell, Delegation, Status
from harness.record.evidence import MetricValue, Quality, QualityPart
from reports import facts, tables
from reports.comparison.diff import ChangeKind, diff
from reports.comparison.gate import judge, parse
from reports.export import junit
from reports.outcome import CellOutcome
from reports.render import html, markdown, terminal, terminal_cell
from reports.summary import RunSummary
from reports.tests.runs import cell, numerics, write
from reports.verdict import RunVerdict, VerdictKind

TODAY = datetime.date(2026, 6, 15)
FAR = Quality(sqnr_db=4.8, expected_db=16.0, output=0, roundings=300)
NEAR = msgspec.structs.replace(FAR, sqnr_db=15.0)


def quantized(case: str = "model/one", quality: Quality | None = FAR, **fields: Any) -> Cell:
    return cell(case, "tosa:int", quality=quality, **fields)


@pytest.mark.parametrize(("sqnr", "word"), [(9.9, "degraded"), (10.1, "passed")])
def test_degraded_is_a_quality_more_than_6_db_below_the_expected(sqnr: float, word: str) -> None:
    made = quantized(quality=msgspec.structs.replace(FAR, sqnr_db=sqnr))
    assert CellOutcome.from_cell(made).value == word


def test_degraded_is_a_separate_outcome() -> None:
    assert CellOutcome.from_cell(quantized()) is CellOutcome.DEGRADED
    undelegated = quantized(delegation=Delegation(undelegated_nodes=1))
    assert CellOutcome.from_cell(undelegated) is CellOutcome.DEGRADED
    # A vacuous pass stays one, and what is red stays red.
    vacuous = quantized(numerics=[numerics(conclusive_share=0.0)])
    assert CellOutcome.from_cell(vacuous) is CellOutcome.VACUOUS
    assert CellOutcome.from_cell(quantized(status=Status.MISMATCH)) is CellOutcome.MISMATCH
    assert CellOutcome.from_cell(quantized(quality=None)) is CellOutcome.PASSED
    assert CellOutcome.DEGRADED.is_pass
    assert CellOutcome.DEGRADED.is_conclusive
    assert not CellOutcome.DEGRADED.is_red


def test_the_record_survives_json() -> None:
    part = QualityPart(node="cat", alone_db=float("inf"), without_db=5.0, clipped=0.25)
    made = quantized(quality=msgspec.structs.replace(FAR, parts=[part], clipped={"cat": 0.25}))
    assert Cell.from_json(made.to_json()).quality == made.quality


@pytest.mark.parametrize("field", ["quality", "metrics", "numerics", "intermediates", "outputs"])
@pytest.mark.parametrize("value", ["text", 3, [3], {"parts": 3}])
def test_a_damaged_field_is_a_damaged_record(field: str, value: Any) -> None:
    record = json.loads(quantized().to_json()) | {field: value}
    with pytest.raises(msgspec.MsgspecError):
        Cell.from_json(json.dumps(record))


def test_it_is_counted_and_shown(tmp_path: Path) -> None:
    part = QualityPart(node="cat", alone_db=4.9, without_db=30.0, module="head", codes=7,
                       available=256)  # fmt: skip
    full = msgspec.structs.replace(FAR, parts=[part], keep_float=["head"], reached_db=30.0)
    run = write(tmp_path / "r", [cell("a"), quantized(quality=full)])
    total = RunSummary.from_run(run).overall
    assert (total.cells, total.rated, total.passed) == (2, 2, 2)
    judged = RunVerdict.from_run(run)
    assert judged.kind is VerdictKind.PASSED
    assert "2 of 2 cells passed (1 degraded)" in judged.sentence
    out = io.StringIO()
    terminal.render(run, Console(file=out, width=200))
    terminal_cell.show(run.cells[1], Console(file=out, width=200))
    text = out.getvalue()
    assert "passed, degraded" in text
    assert "SQNR 4.8 dB of the quantized graph against the float model" in text
    assert "16.0 dB expected of 300 roundings, degraded" in text
    assert "reaches 30.0 dB with --keep-float head" in text
    assert "7 of 256" in text
    assert "passed, degraded" in markdown.render(run)
    page = html.render(run)
    assert "16.0 dB expected of 300 roundings" in page
    assert "o-degraded" in page
    assert "passed, degraded: SQNR 4.8 dB" in junit.render(run).decode()
    assert tables.totals(run)["passed_degraded"].tolist() == [0, 1]


def test_a_run_of_degraded_passes_is_no_plain_pass(tmp_path: Path) -> None:
    judged = RunVerdict.from_run(write(tmp_path / "r", [quantized(quality=FAR)]))
    assert (judged.kind, judged.tone, judged.mark) == (VerdictKind.DEGRADED, "warn", "!")
    assert judged.is_good
    assert judged.headline == "PASSED, DEGRADED"
    assert "every pass is far from its float model; 1 of 1 cell passed (1 degraded)" in (
        judged.sentence
    )


def test_a_search_that_fails_says_so() -> None:
    short = msgspec.structs.replace(FAR, keep_float=["a", "b"], reached_db=9.0, wanted_db=20.0)
    text = facts.quality_search(quantized(quality=short))
    assert text == "does not reach 20.0 dB: 9.0 dB with all of --keep-float a --keep-float b"


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (NEAR, FAR, ChangeKind.DEGRADED_NEWLY),
        (FAR, NEAR, ChangeKind.DEGRADED_NO_LONGER),
        (None, FAR, None),  # the earlier run did not measure it
        (FAR, FAR, None),
    ],
)
def test_a_change_of_quality_is_a_change(
    before: Quality | None, after: Quality | None, kind: ChangeKind | None, tmp_path: Path
) -> None:
    old = write(tmp_path / "old", [quantized(quality=before)])
    new = write(tmp_path / "new", [quantized(quality=after)])
    kinds = [change.kind for change in diff(old, new).changes]
    assert kinds == ([] if kind is None else [kind])
    judged = judge(old, new, parse(""), today=TODAY)
    assert judged.exit_code == (1 if kind is ChangeKind.DEGRADED_NEWLY else 0)


TOP1 = MetricValue(name="top1", model=1.0, value=0.95, degraded_below=0.9)


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        (0.94, []),  # by less than 0.02
        (0.92, [ChangeKind.QUALITY_WORSE]),
        (0.88, [ChangeKind.DEGRADED_NEWLY, ChangeKind.QUALITY_WORSE]),
        (math.nan, [ChangeKind.DEGRADED_NEWLY, ChangeKind.QUALITY_WORSE]),
        (1.0, []),
    ],
)
def test_a_change_of_a_metric_is_a_change(
    value: float, kinds: list[ChangeKind], tmp_path: Path
) -> None:
    other = msgspec.structs.replace(TOP1, value=value)
    old = write(tmp_path / "old", [quantized(quality=NEAR, metrics=[TOP1])])
    new = write(tmp_path / "new", [quantized(quality=NEAR, metrics=[other])])
    assert [change.kind for change in diff(old, new).changes] == kinds
    assert judge(old, new, parse(""), today=TODAY).exit_code == (1 if kinds else 0)


def test_a_metric_that_an_earlier_run_did_not_have_is_no_change(tmp_path: Path) -> None:
    far = msgspec.structs.replace(TOP1, value=0.1)
    old = write(tmp_path / "old", [quantized(quality=None)])
    new = write(tmp_path / "new", [quantized(quality=None, metrics=[far])])
    assert new.cells[0].is_degraded
    assert diff(old, new).changes == []


def test_a_fixed_cell_that_is_degraded_is_fixed(tmp_path: Path) -> None:
    old = write(tmp_path / "old", [quantized(status=Status.FAILED, stage="run", error="no")])
    new = write(tmp_path / "new", [quantized()])
    assert [change.kind for change in diff(old, new).changes] == [ChangeKind.FIXED]
    assert json.loads(new.cells[0].to_json())["quality"]["sqnr_db"] == 4.8
