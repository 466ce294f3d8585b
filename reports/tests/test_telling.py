"""A vacuous pass is counted and shown separately, never as evidence."""

from __future__ import annotations

import datetime
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.record.cell import Cell, Delegation, Status
from reports import tables
from reports.comparison.diff import ChangeKind, diff
from reports.comparison.gate import judge, parse
from reports.export import junit, render
from reports.outcome import CellOutcome
from reports.render import html, markdown, terminal, terminal_cell
from reports.summary import RunSummary
from reports.tests.runs import cell, numerics, write
from reports.verdict import RunVerdict, VerdictKind

TODAY = datetime.date(2026, 6, 15)
WORDS = "vacuous pass"


def vacuous_cell(case: str = "full/constant", target: str = "xnnpack:fp32", **fields: Any) -> Cell:
    return cell(case, target, numerics=[numerics(conclusive_share=0.0)], **fields)


def test_vacuous_is_a_separate_outcome() -> None:
    assert CellOutcome.from_cell(vacuous_cell()) is CellOutcome.VACUOUS
    assert (
        CellOutcome.from_cell(vacuous_cell(delegation=Delegation(undelegated_nodes=1)))
        is CellOutcome.VACUOUS
    )
    assert (
        CellOutcome.from_cell(cell(numerics=[numerics(conclusive_share=0.1)])) is CellOutcome.PASSED
    )
    # One conclusive output is enough; an output without the measurement counts as conclusive.
    several = [numerics(conclusive_share=0.0), numerics(output=1, conclusive_share=0.5)]
    assert CellOutcome.from_cell(cell(numerics=several)) is CellOutcome.PASSED
    assert CellOutcome.from_cell(cell()) is CellOutcome.PASSED
    # What is red stays red.
    red = vacuous_cell(status=Status.MISMATCH)
    assert CellOutcome.from_cell(red) is CellOutcome.MISMATCH
    assert not CellOutcome.VACUOUS.is_pass
    assert not CellOutcome.VACUOUS.is_conclusive
    assert not CellOutcome.VACUOUS.is_red


def test_a_vacuous_pass_counts_in_the_rate_but_not_as_passed(tmp_path: Path) -> None:
    run = write(tmp_path / "r", [cell("a"), vacuous_cell("b"), vacuous_cell("c")])
    total = RunSummary.from_run(run).overall
    assert (total.cells, total.rated, total.passed, total.conclusive) == (3, 3, 1, 1)
    assert total.rate_text == "1 of 3 (33.3 %)"
    judged = RunVerdict.from_run(run)
    assert judged.kind is VerdictKind.PASSED
    assert "2 vacuous pass" in judged.sentence


def test_a_run_of_only_vacuous_passes_did_not_pass(tmp_path: Path) -> None:
    judged = RunVerdict.from_run(write(tmp_path / "r", [vacuous_cell("b")]))
    assert judged.kind is VerdictKind.HOLLOW
    assert not judged.is_good


def _terminal(run: Any) -> str:
    out = io.StringIO()
    terminal.render(run, Console(file=out, width=160))
    return out.getvalue()


@pytest.mark.parametrize("render", [_terminal, markdown.render, html.render])
def test_reports_count_vacuous_passes_separately_and_explain_them(
    tmp_path: Path, render: Any
) -> None:
    shown = render(write(tmp_path / "r", [cell("a"), vacuous_cell("b")]))
    assert WORDS in shown.lower()
    assert "a constant output would pass too" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"numerics": [numerics(conclusive_share=0.0)], "vacuous_reason": "zeros by design"},
         "vacuous: 0 % of the elements are conclusive; zeros by design"),
        ({"numerics": [numerics(conclusive_share=0.0)]}, "the case gives no reason"),
        ({"numerics": [numerics(conclusive_share=0.875)]}, "87.5 % of the elements"),
    ],
)  # fmt: skip
def test_a_cell_shows_its_conclusive_share(fields: dict[str, Any], words: str) -> None:
    out = io.StringIO()
    terminal_cell.show(cell(**fields), Console(file=out, width=160))
    assert words in out.getvalue()


def test_exports_have_a_column(tmp_path: Path) -> None:
    cells = [cell("a"), vacuous_cell("b", vacuous_reason="zeros by design"),
             cell("c", numerics=[numerics(conclusive_share=0.25)])]  # fmt: skip
    run = write(tmp_path / "r", cells)
    frame = tables.frame(run)
    assert frame["conclusive_share"].tolist()[1:] == [0.0, 0.25]
    assert frame["conclusive_share"].isna().tolist() == [True, False, False]
    assert frame["outcome"].tolist() == ["passed", "vacuous", "passed"]
    assert tables.totals(run)["passed_vacuously"].tolist() == [1]
    exported = json.loads(render([run], "json"))
    columns = [column["name"] for column in exported["columns"]]
    values = [row[columns.index("conclusive_share")] for row in exported["rows"]]
    assert values == [None, 0.0, 0.25]
    assert [row[columns.index("vacuous_reason")] for row in exported["rows"]][
        1
    ] == "zeros by design"
    xml = junit.render(run).decode()
    assert xml.count("<skipped") == 1
    assert "vacuous pass: zeros by design" in xml


def test_a_target_with_only_vacuous_passes_has_no_verdict(tmp_path: Path) -> None:
    cells = [cell("a"), cell("b"), vacuous_cell("c", "tosa:fp"), vacuous_cell("d", "tosa:fp")]
    run = write(tmp_path / "r", cells)
    judged = judge(run, run, parse(""), today=TODAY)
    assert judged.exit_code == 2
    assert judged.obstacles == ["target tosa:fp: none of its 2 passes is conclusive"]
    red = cell("e", status=Status.FAILED, stage="lower", error="E", runtime="none", numerics=[])
    worse = write(tmp_path / "s", [*cells, red], exit_status=1)
    assert judge(run, worse, parse(""), today=TODAY).exit_code == 1
    required = parse('required_targets = ["tosa:fp"]')
    said = judge(run, run, required, today=TODAY).obstacles
    assert "required target tosa:fp has no conclusive cell" in said


def test_losing_the_signal_is_a_change(tmp_path: Path) -> None:
    before = write(tmp_path / "a", [cell("x")])
    after = write(tmp_path / "b", [vacuous_cell("x")])
    assert [change.kind for change in diff(before, after).changes] == [ChangeKind.SIGNAL_LOST]
    assert [change.kind for change in diff(after, before).changes] == [ChangeKind.SIGNAL_GAINED]
