"""Records of earlier schema versions still load, and newer ones are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.errors import RunUnreadable
from harness.record.cell import Status
from harness.record.folder import CELLS_FILE, RUN_FILE, load
from harness.record.run import SCHEMA_VERSION
from reports.comparison import baseline
from reports.comparison.diff import diff
from reports.render import markdown
from reports.summary import Summary
from reports.tests.runs import cell, write

#: Records of a real run, trimmed; crashed, timeout, unavailable and lowered added in its form.
SCHEMA1 = Path(__file__).parent / "data" / "schema1"


def test_runs_of_schema_1_load_with_every_status() -> None:
    run = load(SCHEMA1)
    assert run.info.schema == 1
    assert not run.damage
    assert {item.status for item in run.cells} == set(Status)
    assert run.missing == ["softmax/last_dim@tosa:int"]
    assert run.info.records is None
    assert run.info.merged_from == []
    assert all(item.part is None for item in run.cells)
    # What was not measured then is not known, which is not the same as nothing.
    assert {(item.constant_bytes, item.first_seconds) for item in run.cells} == {(None, None)}
    assert all(item.untraced == "" for item in run.cells)
    mismatch = next(item for item in run.cells if item.status is Status.MISMATCH)
    assert mismatch.numerics[0].bound_used > 300
    assert Summary.of(run).overall.red == 5


def test_runs_of_schema_1_render_compare_and_store(tmp_path: Path) -> None:
    run = load(SCHEMA1)
    assert "INCOMPLETE" in markdown.render(run)
    stored = baseline.store(tmp_path / "baseline.jsonl", run)
    found = diff(stored, run)
    assert {change.kind.value for change in found.changes} == {"still-failing"}
    assert stored.info.schema == SCHEMA_VERSION


def test_a_newer_schema_is_refused_with_what_to_do(tmp_path: Path) -> None:
    shutil.copytree(SCHEMA1, tmp_path / "r")
    file = tmp_path / "r" / RUN_FILE
    record = json.loads(file.read_text())
    file.write_text(json.dumps(record | {"schema": SCHEMA_VERSION + 1}))
    with pytest.raises(RunUnreadable, match=f"reads up to {SCHEMA_VERSION}; update"):
        load(tmp_path / "r")


def test_fields_of_a_later_minor_change_are_ignored(tmp_path: Path) -> None:
    shutil.copytree(SCHEMA1, tmp_path / "r")
    file = tmp_path / "r" / CELLS_FILE
    lines = [json.loads(line) | {"later": {"a": 1}} for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert len(load(tmp_path / "r").cells) == len(lines)


def test_a_run_says_how_many_records_it_wrote(tmp_path: Path) -> None:
    twice = [cell("add/a"), cell("add/a", status=Status.FAILED), cell("add/b")]
    run = write(tmp_path / "r", twice)
    assert run.info.records == 3
    assert run.is_complete
    file = tmp_path / "r" / CELLS_FILE
    lines = file.read_text().splitlines(keepends=True)
    # Every cell still has a record: only the number tells that the failure is gone.
    file.write_text(lines[0] + lines[2])
    assert load(tmp_path / "r").damage == ["cells.jsonl has 2 records, the run wrote 3"]
