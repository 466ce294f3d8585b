"""Records of earlier schema versions still load, and newer ones are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.errors import RunUnreadable
from harness.record.cell import Status
from harness.record.folder import CELLS_FILE, RUN_FILE, load
from harness.record.run import SCHEMA_VERSION
from reports.comparison import baseline
from reports.comparison.diff import diff
from reports.comparison.snapshot import take_snapshot
from reports.outcome import CellOutcome
from reports.render import markdown
from reports.summary import RunSummary
from reports.tests.runs import cell, write

#: Records of a real run, trimmed; crashed, timeout, unavailable and lowered added in its form.
SCHEMA1 = Path(__file__).parent / "data" / "schema1"

#: Synthetic records of schema 4, before fields were renamed, with a baseline of the same run.
SCHEMA4 = Path(__file__).parent / "data" / "schema4"


def test_runs_of_schema_1_load_with_every_status() -> None:
    run = load(SCHEMA1)
    assert run.info.schema == 1
    assert not run.damage
    assert {item.status for item in run.cells} == set(Status)
    assert run.missing == ["softmax/last_dim@tosa:int"]
    assert run.info.records is None
    assert run.info.merged_from == []
    assert all(item.merged_part is None for item in run.cells)
    # Values that were not measured then are unknown, which is not the same as zero.
    assert {(item.constant_bytes, item.first_seconds) for item in run.cells} == {(None, None)}
    assert all(item.trace_skipped == "" for item in run.cells)
    mismatch = next(item for item in run.cells if item.status is Status.MISMATCH)
    assert mismatch.numerics[0].bound_used > 300
    assert RunSummary.from_run(run).overall.red == 5


def test_runs_of_schema_1_render_compare_and_store(tmp_path: Path) -> None:
    run = load(SCHEMA1)
    assert "INCOMPLETE" in markdown.render(run)
    stored = baseline.store(tmp_path / "baseline.jsonl", run)
    found = diff(stored, run)
    assert {change.kind.value for change in found.changes} == {"still-failing"}
    assert stored.info.schema == SCHEMA_VERSION


def test_fields_of_schema_4_have_their_present_names() -> None:
    run = load(SCHEMA4)
    assert run.info.schema == 4
    assert not run.damage
    info = run.info
    assert set(info.slow_parts) == {"lean"}
    assert set(info.missing_names) == {"torch._x"}
    assert info.dependency_digests == {"files": "0123"}
    assert info.resumed_at == ["2026-06-10T10:00:00+00:00"]
    passed, vacuous, mismatch, failed = run.cells
    assert [item.merged_part for item in run.cells] == ["linux", "linux", "mac", "mac"]
    assert (passed.saved_to, passed.conclusive_share) == ("kept/add_a-1", 0.9)
    assert passed.intermediates[0].numerics[0].conclusive_share == 0.8
    assert passed.properties[0].holds is True
    assert passed.dynamic_dimensions[0].sizes == [2, 8]
    assert vacuous.vacuous_reason == "zeros by design"
    assert vacuous.numerics[0].vacuous is not None
    assert vacuous.numerics[0].vacuous.passing_elements == 6
    assert mismatch.first_divergence is not None
    assert mismatch.first_divergence.originates_here is True
    assert [issue.cause for issue in mismatch.known_issues] == ["Loses digits."]
    assert mismatch.side_effects == ["buffer mask"]
    assert (failed.model_frame, failed.trace_skipped) == ("net.py:3: x", "it takes 9 s")
    assert RunSummary.from_run(run).overall.counts[CellOutcome.VACUOUS] == 1


def test_baselines_of_schema_4_equal_their_run() -> None:
    stored = baseline.load(SCHEMA4 / "baseline.jsonl")
    assert stored.info.schema == 4
    assert [item.outcome.value for item in stored.cells.values()] == [
        "passed", "vacuous", "mismatch", "failed"
    ]  # fmt: skip
    cells = take_snapshot(load(SCHEMA4)).cells
    assert stored.cells == {name: replace(item, seconds=None) for name, item in cells.items()}


def test_a_newer_schema_is_refused_with_advice(tmp_path: Path) -> None:
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


def test_a_run_records_its_number_of_records(tmp_path: Path) -> None:
    twice = [cell("add/a"), cell("add/a", status=Status.FAILED), cell("add/b")]
    run = write(tmp_path / "r", twice)
    assert run.info.records == 3
    assert run.is_complete
    file = tmp_path / "r" / CELLS_FILE
    lines = file.read_text().splitlines(keepends=True)
    # Every cell still has a record: only the number shows that the failure is gone.
    file.write_text(lines[0] + lines[2])
    assert load(tmp_path / "r").damage == ["cells.jsonl has 2 records, the run wrote 3"]
