"""Severities in reports: shown with each mismatch, sorted by, compared and gated."""

from __future__ import annotations

import datetime
import io
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from rich.console import Console

from harness.record.cell import Cell, LimitationRef, Status
from harness.record.folder import load
from harness.record.severity import Severity
from reports import tables
from reports.comparison import baseline
from reports.comparison.diff import ChangeKind, Diff, diff, plain
from reports.comparison.gate import (
    Judgement,
    judge,
    junit as gate_junit,
    markdown as gate_markdown,
    parse,
    sarif,
    terminal as gate_terminal,
)
from reports.comparison.tests.sides import SUBJECT, side
from reports.export import junit, render
from reports.outcome import CellOutcome
from reports.render import html, markdown, terminal, terminal_cell
from reports.summary import RunSummary
from reports.tests.runs import cell, numerics, write
from reports.verdict import RunVerdict

TODAY = datetime.date(2026, 6, 15)
WORST_FIRST = ["critical", "major", "minor", "negligible"]


def wrong(case: str, severity: Severity | None, **fields: Any) -> Cell:
    row = numerics(
        exceeding=1, bound_used=2.0, problem="off", severity=severity, worst_error=4e-7, max_abs=9.0
    )
    given = {"status": Status.MISMATCH, "stage": "compare", "error": "off", "severity": severity}
    return cell(case, numerics=[row], **(given | fields))


def run_of_all(path: Path) -> Any:
    cells = [wrong(f"add/{each.value}", each) for each in Severity]
    known = LimitationRef(reason="known")
    cells.append(wrong("add/known", Severity.MINOR, status=Status.XFAILED, limitation=known))
    return write(path, [*cells, cell("add/fine")], exit_status=1)


def _terminal(run: Any) -> str:
    out = io.StringIO()
    terminal.render(run, Console(file=out, width=160))
    return out.getvalue()


def test_failures_and_causes_are_sorted_by_severity_before_anything_measured(
    tmp_path: Path,
) -> None:
    run = run_of_all(tmp_path / "r")
    # One that uses far more of its bound and is off by less.
    far = wrong("add/far", Severity.MINOR)
    far.numerics = [numerics(exceeding=1, bound_used=1e9, problem="off", severity=Severity.MINOR)]
    found = RunSummary.from_run(write(tmp_path / "s", [*run.cells, far, wrong("add/old", None)]))
    names = [row.case.removeprefix("add/") for row in found.failures]
    # A value missing in an older record could be critical.
    assert names == ["critical", "old", "major", "far", "minor", "negligible"]
    assert [cause.words for cause in found.failure_groups] == [
        "mismatch, critical", "mismatch", "mismatch, major", "mismatch, minor",
        "mismatch, negligible",
    ]  # fmt: skip
    assert "6 red cells: 6 mismatch (1 critical, 1 major, 2 minor, 1 negligible)" in (
        RunVerdict.from_run(found).sentence
    )


@pytest.mark.parametrize("shown", [_terminal, markdown.render])
def test_terminal_and_markdown_show_the_worst_first(tmp_path: Path, shown: Any) -> None:
    text = shown(run_of_all(tmp_path / "r"))
    # Their repro lines name each once more, in the same order.
    places = [text.index(f"add/{name}@xnnpack:fp32") for name in WORST_FIRST]
    assert places == sorted(places)
    for name in WORST_FIRST:
        assert f"mismatch, {name}" in text
    # The error is that of the element with the largest bound used, not the largest error.
    assert "error 4e-07, bound 2e-07" in text


def test_the_page_shows_and_sorts_by_it(tmp_path: Path) -> None:
    page = html.render(run_of_all(tmp_path / "r"))
    heads = re.findall(r"<h3>(.*?) in ", page)
    assert heads == [f"Mismatch, {name}" for name in WORST_FIRST]
    assert '"severity":"critical"' in page.replace(" ", "")
    assert "Error there" in page


def test_one_cell_in_full(tmp_path: Path) -> None:
    run = run_of_all(tmp_path / "r")
    for name, words in (
        ("critical", "≠ mismatch, critical"),
        ("known", "x xfailed, minor"),
        ("fine", "✓ passed, delegated"),
    ):
        out = io.StringIO()
        terminal_cell.show(run.cell(f"add/{name}@xnnpack:fp32"), Console(file=out, width=160))
        assert words in out.getvalue()
        assert ("Severity" in out.getvalue()) == (name != "fine")
    assert "the output no longer resembles the reference" in Severity.CRITICAL.meaning


def test_exports_have_it(tmp_path: Path) -> None:
    run = run_of_all(tmp_path / "r")
    column = tables.frame(run)["severity"].tolist()
    assert column[:5] == ["negligible", "minor", "major", "critical", "minor"]
    assert tables.failures(run)["severity"].tolist() == WORST_FIRST
    exported = json.loads(render([run], "json"))
    at = [one["name"] for one in exported["columns"]].index("severity")
    assert [row[at] for row in exported["rows"]][5] is None
    xml = ElementTree.fromstring(junit.render(run))
    messages = {
        case.get("name"): part.get("message", "")
        for case in xml.iter("testcase")
        for part in (*case.findall("failure"), *case.findall("skipped"))
    }
    assert messages["add/critical"].startswith("mismatch, critical: ")
    assert messages["add/known"].startswith("xfailed, minor: ")


def test_new_records_have_a_severity_and_older_ones_none(tmp_path: Path) -> None:
    run = run_of_all(tmp_path / "r")
    assert '"severity":"critical"' in (tmp_path / "r" / "cells.jsonl").read_text()
    assert load(tmp_path / "r").cell("add/major@xnnpack:fp32").severity is Severity.MAJOR
    stored = baseline.store(tmp_path / "b.jsonl", run)
    kept = {name: each.severity for name, each in stored.cells.items() if each.severity}
    assert kept["add/known@xnnpack:fp32"] is Severity.MINOR
    assert diff(run, stored).changes == [] or {
        change.kind for change in diff(run, stored).changes
    } == {ChangeKind.STILL_FAILING}
    lines = (tmp_path / "r" / "cells.jsonl").read_text().replace('"severity":"critical",', "")
    file = tmp_path / "r" / "cells.jsonl"
    file.write_text(re.sub(r',"severity":"\w+"', "", lines))
    info = tmp_path / "r" / "run.json"
    info.write_text(info.read_text().replace('"schema": 5', '"schema": 3'))
    old = load(tmp_path / "r")
    assert old.info.schema == 3
    assert not old.damage
    assert {each.severity for each in old.cells} == {None}
    assert "mismatch" in _terminal(old)
    assert "≠" in html.render(old)


def changed(before: str, after: str) -> Diff:
    return diff(side({SUBJECT: before}), side({SUBJECT: after}))


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ("minor", "major", [ChangeKind.MORE_SEVERE, ChangeKind.STILL_FAILING]),
        ("major", "minor", [ChangeKind.STILL_FAILING]),
        ("minor", "minor", [ChangeKind.STILL_FAILING]),
        ("xfailed minor", "xfailed critical", [ChangeKind.MORE_SEVERE]),
        ("xfailed critical", "xfailed minor", []),
        ("mismatch", "critical", [ChangeKind.STILL_FAILING]),
        ("passed", "minor", [ChangeKind.NEWLY_FAILING]),
        ("failed", "critical", [ChangeKind.FAILS_OTHERWISE]),
    ],
)
def test_a_mismatch_that_is_more_severe_is_a_change(
    before: str, after: str, kinds: list[ChangeKind]
) -> None:
    found = [change.kind for change in changed(before, after).changes]
    assert [
        kind for kind in found if kind not in (ChangeKind.NUMERICS_WORSE, ChangeKind.BOUND_UP)
    ] == kinds


def test_changes_show_severity_and_are_sorted_by_it() -> None:
    cases = {f"add/{name}": name for name in ("minor", "critical", "negligible", "major")}
    found = diff(side(dict.fromkeys(cases, "passed")), side(cases))
    newly = found.select_kind(ChangeKind.NEWLY_FAILING)
    assert [change.id for change in newly] == [f"add/{name}@xnnpack:fp32" for name in WORST_FIRST]
    assert newly[0].detail.startswith("passed, delegated → mismatch, critical in compare")
    first = json.loads(plain.render(found))["changes"][0]
    assert first["severity"] == [None, "critical"]
    detail = changed("xfailed minor", "xfailed critical").changes[0].detail
    assert detail == "minor → critical"


def judged(before: str, after: str, content: str) -> Judgement:
    old, new = side({SUBJECT: before}), side({SUBJECT: after})
    return judge(old, new, parse(content), today=TODAY)


MAJOR = 'severity_at_least = "major"\n'
ANY_TARGET = '[[target]]\nmatch = "*"\n'


@pytest.mark.parametrize(
    ("before", "after", "policy", "red"),
    [
        ("passed", "negligible", "", True),
        ("passed", "negligible", MAJOR, False),
        ("passed", "minor", MAJOR, False),
        ("passed", "major", MAJOR, True),
        ("passed", "critical", MAJOR, True),
        ("absent", "minor", MAJOR, False),
        ("failed", "minor", MAJOR, False),
        ("minor", "major", "", True),
        ("minor", "major", MAJOR, True),
        ("negligible", "minor", MAJOR, False),
        ("xfailed minor", "xfailed critical", MAJOR, True),
        ("xfailed negligible", "xfailed minor", MAJOR, False),
        ("passed", "xfailed minor", MAJOR, True),  # that a limitation appeared is another matter
        # What has no severity is never tolerated.
        ("passed", "mismatch", MAJOR, True),
        ("passed", "failed", MAJOR, True),
        ("passed", "crashed", MAJOR, True),
        ("passed", "timeout", MAJOR, True),
        ("passed", "vacuous", MAJOR, True),
        # The setting of the target wins.
        ("passed", "major", f'{MAJOR}{ANY_TARGET}severity_at_least = "critical"', False),
        ("passed", "minor", f'{MAJOR}{ANY_TARGET}severity_at_least = "minor"', True),
        ("passed", "minor", f"{MAJOR}{ANY_TARGET}min_cells = 1", False),
        # Known failures are red if the policy says so, from the same severity on.
        ("minor", "minor", f'{MAJOR}red = ["still-failing"]', False),
        ("major", "major", f'{MAJOR}red = ["still-failing"]', True),
    ],
)  # fmt: skip
def test_the_gate_is_red_from_a_severity_on(
    before: str, after: str, policy: str, red: bool
) -> None:
    found = judged(before, after, policy)
    assert bool(found.red) is red, found.red
    if after in ("negligible", "minor") and not red:
        assert {change.id for change in found.mild} == {f"{SUBJECT}@xnnpack:fp32"}
    assert found.exit_code == int(red)


def test_mismatches_excused_by_severity_are_listed() -> None:
    found = judged("passed", "minor", MAJOR)
    assert (found.exit_code, found.red) == (0, [])
    assert "1 mismatch below severity_at_least" in found.sentence
    out = io.StringIO()
    gate_terminal.render(found, console=Console(file=out, width=160))
    for text in (out.getvalue(), gate_markdown.render(found)):
        assert "Mismatches below severity_at_least: 1 newly failing" in text
        assert "mismatch, minor" in text
    results = json.loads(sarif.render(found))["runs"][0]["results"]
    assert [(one["level"], one["properties"]) for one in results] == [
        ("note", {"severity": "minor"})
    ]
    skipped = ElementTree.fromstring(gate_junit.render(found)).iter("skipped")
    assert "mismatch below severity_at_least" in next(iter(skipped)).get("message", "")
    red = judged("passed", "critical", MAJOR)
    results = json.loads(sarif.render(red))["runs"][0]["results"]
    assert [(one["level"], one["properties"]["severity"]) for one in results] == [
        ("error", "critical")
    ]


def test_a_loss_of_quality_beside_a_failure_is_judged_separately() -> None:
    def quality(run: Any, value: float) -> Any:
        for each in run.cells:
            each.numerics = [
                msgspec.structs.replace(row, model_sqnr_db=value) for row in each.numerics
            ]
        return run

    old, new = quality(side({SUBJECT: "passed"}), 40.0), quality(side({SUBJECT: "minor"}), 40.0)
    assert judge(old, new, parse(MAJOR), today=TODAY).exit_code == 0
    worse = quality(side({SUBJECT: "minor"}), 10.0)
    found = judge(old, worse, parse(MAJOR), today=TODAY)
    assert ChangeKind.QUALITY_WORSE in {change.kind for change in found.red}
    assert SUBJECT in {change.cell.case for change in found.red}


def test_the_most_severe_of_several_records_counts(tmp_path: Path) -> None:
    for order in (1, -1):
        cells = [wrong("add/a", each) for each in Severity][::order]
        run = write(tmp_path / f"r{order}", cells, expected=["add/a@xnnpack:fp32"])
        (row,) = RunSummary.from_run(run).rows
        assert (row.outcome, row.severity) == (CellOutcome.MISMATCH, Severity.CRITICAL)
