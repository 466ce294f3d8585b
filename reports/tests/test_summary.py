"""Arithmetic of totals, grouping, order, and the verdict."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.record.cell import Cell, Delegation, LimitationRef, Status
from harness.record.run import BackendState
from reports import facts, summary, tables
from reports.outcome import CellOutcome
from reports.render import html, markdown, terminal, terminal_cell
from reports.summary import RunSummary
from reports.tests.runs import cell, large, numerics, write
from reports.verdict import RunVerdict, VerdictKind

_NOTHING: dict[str, Any] = {"runtime": "none", "numerics": [], "delegation": Delegation()}


def test_every_status_has_an_outcome_with_its_own_word_and_sign() -> None:
    for status in Status:
        outcome = CellOutcome.from_cell(cell(status=status))
        assert outcome.value == status.value
        assert outcome.is_red == status.is_red
    assert len({outcome.label for outcome in CellOutcome}) == len(CellOutcome)
    assert len({outcome.symbol for outcome in CellOutcome}) == len(CellOutcome)
    assert len({outcome.badness for outcome in CellOutcome}) == len(CellOutcome)


def test_totals_count_outcomes_separately_and_the_rate_excludes_only_unsupported(
    tmp_path: Path,
) -> None:
    cells = [
        cell("a"),
        cell("b", delegation=Delegation(undelegated_nodes=1)),
        cell("c", status=Status.MISMATCH),
        cell("d", status=Status.UNSUPPORTED, **_NOTHING),
        cell("e", status=Status.UNAVAILABLE, **_NOTHING),
        cell("f", status=Status.XFAILED, **_NOTHING),
        cell("g", status=Status.LOWERED, **_NOTHING),
    ]
    run = write(tmp_path / "r", cells, expected=[*(c.id for c in cells), "h@xnnpack:fp32"])
    (total,) = RunSummary.from_run(run).totals
    assert (total.cells, total.rated, total.passed, total.red) == (8, 7, 2, 1)
    assert total.pass_rate == 2 / 7
    assert total.counts[CellOutcome.PASSED] == total.counts[CellOutcome.UNDELEGATED] == 1
    assert total.counts[CellOutcome.NOT_RUN] == total.counts[CellOutcome.UNAVAILABLE] == 1
    assert total.counts.total() == 8
    assert total.rate_text == "2 of 7 (28.5 %)"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (Status.UNAVAILABLE, "unavailable"),
        (Status.LOWERED, "lowered only"),
        (Status.UNSUPPORTED, "unsupported"),
    ],
)
def test_a_target_that_executed_nothing_has_no_rate_rather_than_zero(
    tmp_path: Path, status: Status, words: str
) -> None:
    run = write(tmp_path / "r", [cell("a", status=status, **_NOTHING)])
    (total,) = RunSummary.from_run(run).totals
    assert total.pass_rate is None
    assert total.rate_text == words


def test_a_target_where_everything_crashed_rates_zero(tmp_path: Path) -> None:
    run = write(tmp_path / "r", [cell("a", status=Status.CRASHED, **_NOTHING)])
    assert RunSummary.from_run(run).totals[0].pass_rate == 0.0


def test_a_selected_target_without_cells_is_shown(tmp_path: Path) -> None:
    run = write(tmp_path / "r", [cell()], targets=["tosa:fp", "xnnpack:fp32"])
    assert [(total.target, total.cells) for total in RunSummary.from_run(run).totals] == [
        ("tosa:fp", 0),
        ("xnnpack:fp32", 1),
    ]


def test_a_missing_cell_takes_its_op_from_the_same_case_elsewhere(tmp_path: Path) -> None:
    recorded = cell("net/small", "xnnpack:fp32", op="network", suite="models")
    run = write(tmp_path / "r", [recorded], expected=[recorded.id, "net/small@tosa:fp", "odd"])
    by_id = {row.id: row for row in RunSummary.from_run(run).rows}
    assert by_id["net/small@tosa:fp"].op == "network"
    assert by_id["net/small@tosa:fp"].outcome is CellOutcome.NOT_RUN
    assert by_id["odd"].target == summary.NO_TARGET
    assert RunSummary.from_run(run).overall.cells == 3


@pytest.mark.parametrize("crash_first", [True, False])
def test_a_later_pass_does_not_hide_a_crash(tmp_path: Path, *, crash_first: bool) -> None:
    records = [cell(status=Status.CRASHED, **_NOTHING), cell()]
    run = write(tmp_path / "r", records if crash_first else records[::-1])
    (row,) = RunSummary.from_run(run).rows
    assert row.outcome is CellOutcome.CRASHED
    assert RunSummary.from_run(run).repeated == [row.id]
    judged = RunVerdict.from_run(run)
    assert judged.kind is VerdictKind.FAILED
    assert any("several records" in concern for concern in judged.concerns)


def test_failures_are_worst_first_and_nan_is_worse_than_any_number(tmp_path: Path) -> None:
    def wrong(name: str, used: float) -> Any:
        return cell(name, status=Status.MISMATCH, numerics=[numerics(bound_used=used)])

    cells = [
        cell("xpassed", status=Status.XPASSED),
        cell("failed", status=Status.FAILED, **_NOTHING),
        wrong("a little", 1.1),
        wrong("much", 900.0),
        wrong("nan", math.nan),
        wrong("infinite", math.inf),
        cell("timeout", status=Status.TIMEOUT, **_NOTHING),
        cell("crashed", status=Status.CRASHED, **_NOTHING),
        cell("fine"),
    ]
    names = [row.case for row in RunSummary.from_run(write(tmp_path / "r", cells)).failures]
    assert names[0] == "crashed"
    assert set(names[1:3]) == {"nan", "infinite"}
    assert names[3:] == ["much", "a little", "failed", "timeout", "xpassed"]


def test_causes_group_errors_that_differ_in_numbers_only(tmp_path: Path) -> None:
    def failed(name: str, stage: str, error: str) -> Any:
        return cell(name, status=Status.FAILED, stage=stage, error=error, **_NOTHING)

    cells = [
        failed("a", "lower", "no visitor for node 12 at 0x7f01"),
        failed("b", "lower", "no visitor for node 7 at 0x7f02"),
        failed("c", "run", "no visitor for node 7 at 0x7f02"),
        failed("d", "lower", "another"),
    ]
    causes = RunSummary.from_run(write(tmp_path / "r", cells)).failure_groups
    assert [row.case for row in causes[0].rows] == ["a", "b"]
    assert len(causes) == 3
    assert sum(len(cause.rows) for cause in causes) == len(cells)


def test_gaps_group_by_reason_and_put_stale_entries_first(tmp_path: Path) -> None:
    known, stale = LimitationRef(reason="known", link="https://x.y"), LimitationRef(reason="stale")
    cells = [
        *(cell(f"k{n}", status=Status.XFAILED, limitation=known, **_NOTHING) for n in range(3)),
        cell("s", status=Status.XPASSED, limitation=stale),
        cell("u", status=Status.UNSUPPORTED, error="no such dtype", **_NOTHING),
    ]
    gaps = RunSummary.from_run(write(tmp_path / "r", cells)).limitation_groups
    assert [(gap.reason, len(gap.rows)) for gap in gaps] == [
        ("stale", 1),
        ("known", 3),
        ("no such dtype", 1),
    ]


def test_partitions_sum_up_fallback_nodes(tmp_path: Path) -> None:
    left = Delegation(
        delegates=1, delegated_nodes=3, undelegated_nodes=2, undelegated_ops={"cat": 2}
    )
    cells = [
        cell("a", delegation=left),
        cell("b", delegation=left),
        cell("c", delegation=Delegation(undelegated_nodes=1, undelegated_ops={"add": 1})),
        cell("d", status=Status.FAILED, **_NOTHING),
    ]
    (part,) = RunSummary.from_run(write(tmp_path / "r", cells)).delegation_totals
    assert (part.cells, part.undelegated_cells, part.delegates) == (3, 1, 2)
    assert (part.delegated_nodes, part.undelegated_nodes) == (6, 5)
    assert part.fallback_ops == {"cat": 4, "add": 1}
    assert part.fallback_cells == {"cat": 2, "add": 1}


def test_worst_of_several_outputs() -> None:
    several = cell(
        numerics=[
            numerics(max_abs=1.0, bound_used=0.1, sqnr_db=60.0),
            numerics(max_abs=0.1, bound_used=0.9, sqnr_db=20.0),
        ]
    )
    assert summary.worst_max_abs(several) == 1.0
    assert summary.worst_bound_used(several) == 0.9
    assert summary.worst_sqnr(several) == 20.0
    assert summary.worst_output(several) is several.numerics[1]
    undefined = cell(numerics=[numerics(), numerics(bound_used=math.nan, sqnr_db=math.nan)])
    assert summary.worst_output(undefined) is undefined.numerics[1]
    assert math.isnan(summary.worst_bound_used(undefined) or 0.0)
    assert math.isnan(summary.worst_sqnr(undefined) or 0.0)
    assert summary.worst_sqnr(cell(numerics=[])) is None


def test_verdicts(tmp_path: Path) -> None:
    def kind(name: str, *cells: Any, **options: Any) -> VerdictKind:
        return RunVerdict.from_run(write(tmp_path / name, cells, **options)).kind

    red = cell("red", status=Status.MISMATCH)
    away = cell("away", status=Status.UNAVAILABLE, **_NOTHING)
    assert kind("passed", cell()) is VerdictKind.PASSED
    assert kind("red", cell(), red, exit_status=1) is VerdictKind.FAILED
    assert kind("red although exit status 0", red) is VerdictKind.FAILED
    assert kind("exit status alone", cell(), exit_status=3) is VerdictKind.FAILED
    assert kind("killed", cell(), end=False) is VerdictKind.INCOMPLETE
    assert kind("missing", cell(), expected=[cell().id, "b@tosa:fp"]) is VerdictKind.INCOMPLETE
    assert kind("killed and red", red, end=False) is VerdictKind.FAILED
    assert kind("hollow", away) is VerdictKind.HOLLOW
    assert kind("empty") is VerdictKind.EMPTY


def test_a_red_and_killed_run_is_reported_as_both(tmp_path: Path) -> None:
    judged = RunVerdict.from_run(write(tmp_path / "r", [cell(status=Status.FAILED)], end=False))
    assert judged.headline == "FAILED, INCOMPLETE"
    assert not judged.is_good


def test_a_backend_that_is_not_here_and_a_problem_are_concerns(tmp_path: Path) -> None:
    away = {"mlx": BackendState(available=False, reason="not a Mac")}
    run = write(tmp_path / "r", [cell()], backends=away, problems=["limitation 3 matches nothing"])
    assert RunVerdict.from_run(run).concerns == [
        "problem: limitation 3 matches nothing",
        "backend mlx is unavailable: not a Mac",
    ]


def test_all_renderers_share_one_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = large(tmp_path / "r", cases=20)
    judged: list[Cell | None] = []
    of = CellOutcome.from_cell

    def counted(item: Cell | None) -> CellOutcome:
        judged.append(item)
        return of(item)

    monkeypatch.setattr(CellOutcome, "from_cell", counted)
    found = RunSummary.from_run(run)
    assert RunSummary.from_run(found) is found
    out = io.StringIO()
    terminal.render(found, Console(file=out, width=120))
    pages = [markdown.render(found), html.render(found)]
    # Each record is judged once, however many sections of however many reports show it.
    assert len(judged) == len(run.cells)
    assert [markdown.render(run), html.render(run)] == pages


def test_stages_and_overhead_add_up_to_the_total(tmp_path: Path) -> None:
    # As in records of schema 2: time outside of vendor code, including "reference".
    item = cell(seconds=10.0, overhead=7.0, stages={"lower": 3.0, "reference": 6.0})
    assert facts.overhead(item) == 1.0
    out = io.StringIO()
    terminal_cell.show(item, Console(file=out, width=120))
    assert re.search(r"harness overhead\s+1\.0 s", out.getvalue())
    assert tables.frame(write(tmp_path / "r", [item]))["overhead"].tolist() == [1.0]


def test_the_headline_is_not_derived_from_text() -> None:
    judged = RunVerdict(VerdictKind.FAILED, "red", ["incomplete: is a word of a problem"])
    assert judged.headline == "FAILED"
    assert RunVerdict(VerdictKind.FAILED, "red", [], incomplete=True).headline.endswith(
        "INCOMPLETE"
    )
