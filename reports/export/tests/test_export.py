"""Exports: types survive, spreadsheets run nothing, CI sees no green that did not run."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st
from pandas.testing import assert_frame_equal

from harness.cli import main
from harness.errors import ConflictingOptions, RunUnwritable, UsageError
from harness.record.cell import LimitationRef, Status
from harness.record.run import Run
from reports import export, tables
from reports.export.flat import as_text
from reports.tests.runs import cell, large, numerics, write

NAN, INF = math.nan, math.inf
EVIL = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "'=1", "a;=1", 'a",=1', "é"]


def odd(folder: Path) -> Run:
    """A run with every kind of number and text that formats get wrong."""
    return write(
        folder,
        [
            cell(
                "a",
                numerics=[numerics(sqnr_db=INF, max_abs=0.0)],
                stages={"lower": 2.0},
                memory={"lower": 3},
            ),
            cell("b", numerics=[numerics(sqnr_db=NAN, bound_used=-INF)], stages={"run": 1.0}),
            cell("c", numerics=[], status=Status.FAILED, stage="run", error="=cmd|' /C calc'!A0"),
            *(cell(f"d{at}", status=Status.FAILED, error=text) for at, text in enumerate(EVIL)),
        ],
        expected=["a@xnnpack:fp32", "z@xnnpack:fp32"],
        exit_status=1,
    )


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", tables.TABLES)
def test_every_table_reads_back_from_parquet_unchanged(tmp_path: Path, name: str) -> None:
    for run in (
        odd(tmp_path / "odd"),
        large(tmp_path / "large", cases=8),
        write(tmp_path / "e", []),
    ):
        table = tables.TABLES[name](run)
        back = pd.read_parquet(io.BytesIO(export.render([run], "parquet", name)))
        # The columns of a table without rows have no known type.
        assert_frame_equal(back, table, check_dtype=len(table) > 0, check_index_type=False)
        for style in ("csv", "json"):
            assert export.render([run], style, name)


def test_parquet_tells_null_from_nan_and_keeps_infinities(tmp_path: Path) -> None:
    content = export.render([odd(tmp_path / "r")], "parquet")
    table = pq.read_table(io.BytesIO(content))
    sqnr = table["sqnr_db"].to_pylist()
    assert sqnr[0] == INF
    assert math.isnan(sqnr[1])
    assert sqnr[2] is None
    assert table["bound_used"].to_pylist()[1] == -INF
    assert table["seconds_lower"].to_pylist()[:2] == [2.0, None]
    assert table["memory"].to_pylist()[:2] == [3.0, None]
    assert table["memory_lower"].to_pylist()[:2] == [3.0, None]
    kinds = {field.name: str(field.type) for field in table.schema}
    assert (kinds["red"], kinds["delegates"], kinds["seconds"]) == ("bool", "int64", "double")
    assert table.column_names[0] == "id"


def test_csv_has_no_cell_that_a_spreadsheet_runs(tmp_path: Path) -> None:
    content = export.render([odd(tmp_path / "r")], "csv").decode()
    rows = list(csv.DictReader(io.StringIO(content, newline="")))
    errors = [row["error"] for row in rows]
    assert errors[2] == "'=cmd|' /C calc'!A0"
    for row in rows:
        for name, value in row.items():
            number = re.fullmatch(r"-?(\d.*|inf|nan)", value)
            assert number or not value.startswith(tuple("=+-@\t\r\n＝")), (name, value)
    # One leading apostrophe less gives every text back; control characters are replaced.
    back = [error.removeprefix("'") for error in errors[3:]]
    assert back[:4] == EVIL[:4]
    assert back[7:] == EVIL[7:]
    # Text that a spreadsheet with another separator would split is quoted.
    assert '"a;=1"' in content
    assert [row["sqnr_db"] for row in rows[:3]] == ["inf", "nan", ""]
    assert rows[1]["bound_used"] == "-inf"
    assert content.count("\r\n") == len(rows) + 1 + errors.count("'\r=1")


@given(st.text())
def test_no_text_begins_like_a_formula(value: str) -> None:
    made = as_text(value)
    assert not made.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"))
    assert made.removeprefix("'").startswith("'") == value.startswith("'") or "�" in made


def test_json_is_strict_and_typed(tmp_path: Path) -> None:
    record = json.loads(
        export.render([odd(tmp_path / "r")], "json"),
        parse_constant=lambda name: pytest.fail(f"{name} is not JSON"),
    )
    names = [column["name"] for column in record["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in record["rows"]]
    assert [row["sqnr_db"] for row in rows[:3]] == ["inf", "nan", None]
    assert (record["table"], record["runs"]) == ("cells", ["r"])


# --- JUnit ------------------------------------------------------------------------------------


# Elements and attributes of the schema that Jenkins checks (junit-4.xsd and later).
ALLOWED = {
    "testsuites": {"name", "time", "tests", "failures", "disabled", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "time", "disabled", "skipped",
                  "timestamp", "hostname", "id", "package"},
    "testcase": {"name", "assertions", "time", "classname", "status"},
    "skipped": {"message"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
    "system-out": set(),
}  # fmt: skip


def suites(run: Run) -> dict[str, ElementTree.Element]:
    root = ElementTree.fromstring(export.render([run], "junit"))
    for element in root.iter():
        assert set(element.keys()) <= ALLOWED[element.tag]
    for name in ("tests", "failures", "errors"):
        assert int(root.get(name, "")) == sum(int(suite.get(name, "")) for suite in root)
    for suite in root:
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(name, "")) == len(suite.findall(f"testcase/{tag}"))
        assert int(suite.get("tests", "")) == len(suite.findall("testcase"))
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp", ""))
    return {str(suite.get("name")): suite for suite in root}


@pytest.mark.parametrize(
    ("status", "tag"),
    [
        (Status.PASSED, None),
        (Status.MISMATCH, "failure"),
        (Status.FAILED, "failure"),
        (Status.XPASSED, "failure"),
        (Status.CRASHED, "error"),
        (Status.TIMEOUT, "error"),
        (Status.UNAVAILABLE, "error"),
        (None, "error"),
        (Status.XFAILED, "skipped"),
        (Status.UNSUPPORTED, "skipped"),
        (Status.LOWERED, "skipped"),
    ],
)
def test_junit_outcome_of_each_status(
    tmp_path: Path, status: Status | None, tag: str | None
) -> None:
    reason = LimitationRef(reason="known gap", link="https://example.org/1")
    record = cell("add/a", status=status or Status.PASSED, error="the error", limitation=reason)
    other = cell("add/b")
    run = write(
        tmp_path / "r", [other] if status is None else [other, record],
        expected=[other.id, record.id], exit_status=int(status is not None and status.is_red),
    )  # fmt: skip
    case = suites(run)["xnnpack:fp32"].find("testcase[@name='add/a']")
    assert case is not None
    found = [child.tag for child in case if child.tag != "system-out"]
    assert found == ([] if tag is None else [tag])
    if tag is not None:
        assert (
            case[0]
            .get("message", "")
            .startswith(
                {Status.LOWERED: "lowered only", None: "not run"}.get(status) or status.value
            )
        )
        assert "conform repro add/a@xnnpack:fp32" in (case[0].text or "")
    if status is Status.XFAILED:
        assert case[0].get("message") == "xfailed: known gap"


def verdicts(run: Run) -> int:
    return int(suites(run)["run"].get("errors", ""))


def test_a_run_that_failed_as_a_whole_is_a_separate_error(tmp_path: Path) -> None:
    good, red = cell("a"), cell("a", status=Status.FAILED)
    assert verdicts(write(tmp_path / "good", [good])) == 0
    assert verdicts(write(tmp_path / "red", [red], exit_status=1)) == 0  # its cell says it
    assert verdicts(write(tmp_path / "killed", [good], end=False)) == 1
    assert verdicts(write(tmp_path / "red and killed", [red], end=False)) == 1
    assert verdicts(write(tmp_path / "empty", [])) == 1
    assert verdicts(write(tmp_path / "exit", [good], exit_status=3)) == 1
    assert verdicts(write(tmp_path / "hollow", [cell("a", status=Status.XFAILED)])) == 1


def test_xml_of_any_text(tmp_path: Path) -> None:
    nasty = "\x00\x08\x1b[31m<b>&\"'\ufffe\uffff]]> \U0001f600 \x85"
    name = f"n/{nasty}/{'x' * 300}"
    run = write(tmp_path / "r", [cell(name, status=Status.FAILED, error=nasty, traceback=nasty)])
    (case,) = suites(run)["xnnpack:fp32"]
    assert "<b>&\"'" in (case[0].text or "")
    assert "x" * 300 in case.get("name", "")


# --- the command ------------------------------------------------------------------------------


def invoke(*arguments: Any) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["export", *map(str, arguments)])
    return result.exit_code, result.output


def test_the_command_writes_and_does_not_overwrite(tmp_path: Path) -> None:
    run = odd(tmp_path / "r")
    file = tmp_path / "new" / "cells.csv"
    arguments = (run.path, "--format", "csv", "-o", file)
    assert invoke(*arguments) == (0, f"{file}\n")
    first = file.read_bytes()
    file.write_bytes(b"mine")
    code, said = invoke(*arguments)
    assert (code, file.read_bytes()) == (2, b"mine")
    assert "--force" in said
    assert invoke(*arguments, "--force")[0] == 0
    assert file.read_bytes() == first
    assert [path.name for path in file.parent.iterdir()] == ["cells.csv"]


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "out.json"
    file.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(RunUnwritable, match="No space left"):
        export.write(file, b"new", force=True)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(RunUnwritable, match="is a folder"):
        export.write(tmp_path, b"new", force=True)


def test_bad_requests_are_one_line(tmp_path: Path) -> None:
    run = odd(tmp_path / "r")
    with pytest.raises(UsageError, match="choose from cells, coverage"):
        export.render([run], "csv", "speed")
    with pytest.raises(UsageError, match="choose from parquet, csv"):
        export.render([run], "xls")
    with pytest.raises(ConflictingOptions, match="junit always has all cells"):
        export.render([run], "junit", "totals")
    with pytest.raises(UsageError, match="name one"):
        export.render([run, run], "csv")
    assert b'"r #2"' in export.render([run, run], "csv", "environment")
    code, said = invoke(tmp_path / "none", "--format", "csv", "-o", tmp_path / "x")
    assert code == 2
    assert "not a run folder" in said
