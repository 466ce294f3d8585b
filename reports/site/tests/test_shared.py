"""Whose mismatch it is: everybody's points at the oracle, one's at that backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.record.cell import Delegation, LimitationRef, Status
from reports import site
from reports.site.shared import compute_scores, divide_mismatches
from reports.summary import RunSummary
from reports.tests.runs import cell, write

WRONG: dict[str, Any] = {"status": Status.MISMATCH, "stage": "compare", "error": "off"}
KNOWN: dict[str, Any] = {
    "status": Status.XFAILED, "stage": "compare", "limitation": LimitationRef(reason="a gap"),
}  # fmt: skip
REFUSED: dict[str, Any] = {
    "status": Status.FAILED, "stage": "lower", "error": "no", "runtime": "none", "numerics": [],
    "delegation": Delegation(),
}  # fmt: skip
OUT: dict[str, Any] = {**REFUSED, "status": Status.UNSUPPORTED, "stage": None}
NOTHING: dict[str, Any] = {"runtime": "none", "numerics": [], "delegation": Delegation()}
CELLS = [
    cell("all", "xnnpack:fp32", **WRONG), cell("all", "mlx:fp32", **KNOWN),
    cell("all", "tosa:fp", **REFUSED),
    cell("one", "xnnpack:fp32"), cell("one", "mlx:fp32", **WRONG), cell("one", "mlx:bf16", **WRONG),
    cell("some", "xnnpack:fp32", **WRONG), cell("some", "mlx:fp32", **WRONG),
    cell("some", "tosa:fp"),
    cell("only", "mlx:fp32", **WRONG), cell("only", "tosa:fp", **OUT),
    cell("fine", "mlx:fp32"), cell("fine", "tosa:fp", **REFUSED),
]  # fmt: skip


def test_targets_that_are_wrong(tmp_path: Path) -> None:
    found = divide_mismatches(RunSummary.from_run(write(tmp_path / "r", CELLS)).rows)
    assert [split.case for split in found.shared] == ["all"]
    assert set(found.shared[0].backends) == {"xnnpack", "mlx"}
    assert {name: [each.case for each in splits] for name, splits in found.alone.items()} == {
        "mlx": ["one"]
    }
    assert found.alone["mlx"][0].right == ("xnnpack",)
    assert found.some == 1


def test_unsupported_cells_are_shown_beside_a_score(tmp_path: Path) -> None:
    found = compute_scores(RunSummary.from_run(write(tmp_path / "r", CELLS)).totals)
    assert found == {"xnnpack": (1, 3, 0), "mlx": (1, 6, 0), "tosa": (1, 3, 1)}
    away = cell("all", "metal:fp32", status=Status.UNAVAILABLE, error="no device", **NOTHING)
    assert compute_scores(RunSummary.from_run(write(tmp_path / "s", [away])).totals) == {
        "metal": (None, 1, 0)
    }


def test_the_overview_shows_both(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write(runs / "a", CELLS)
    write(runs / "b", CELLS)
    page = site.write(tmp_path / "site", [runs]).index.read_text()
    assert "all backends" in page
    assert "the case or its oracle" in page
    assert "only mlx" in page
    assert "several backends, not all" in page
    assert 'id="scores"' in page
