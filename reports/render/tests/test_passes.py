"""Cells with passes are listed beside cells without."""

from __future__ import annotations

from pathlib import Path

from harness.record.cell import Delegation, PassProperty, Status
from reports.render import html, markdown
from reports.render.passes import HEADER, rows
from reports.tests.runs import cell, numerics, write


def test_effects_of_passes_are_side_by_side(tmp_path: Path) -> None:
    lifted = cell(
        "deit/tiny", "xnnpack:fp32+lift", program_bytes=4096, delegation=Delegation(delegates=3),
        changed_ops={"aten.mul.Scalar": (24, 0), "aten.mul.Tensor": (0, 24)},
        properties=[PassProperty(name="outputs", holds=True)], numerics=[numerics(sqnr_db=120.0)],
    )  # fmt: skip
    broken = cell(
        "add/rank2", "mlx:fp32-passes+cse", status=Status.FAILED, stage="passes", error="x",
        properties=[PassProperty(name="outputs", holds=False, detail="output 0 differs"),
                    PassProperty(name="aliasing", holds=None, detail="not asked")],
    )  # fmt: skip
    run = write(
        tmp_path / "run",
        [
            cell("deit/tiny", "xnnpack:fp32"), lifted,
            cell("add/rank2", "mlx:fp32-passes"), broken, cell("add/rank2", "mlx:fp32"),
            cell("sub/rank2", "xnnpack:fp32+lift"),
        ],
    )  # fmt: skip
    found = {row[1]: dict(zip(HEADER, row, strict=True)) for row in rows(run)}
    # Properties that are not kept are first, passes without effect last.
    cse, lift, none = "mlx:fp32-passes +cse", "xnnpack:fp32 +lift", "mlx:fp32 -passes"
    assert [*found] == [cse, lift, none]
    assert found[lift] == {
        "Case": "deit/tiny", "Target and passes": lift,
        "Outcome": "passed, delegated", "Delegates": "1 → 3", "Fallback nodes": "0",
        "Bytes": "2.05 kB → 4.1 kB", "SQNR": "140.0 dB → 120.0 dB", "Bound used": "0.5",
        "Operators changed": "aten.mul.Scalar 24 → 0, aten.mul.Tensor 0 → 24",
        "Violated properties": "none",
    }  # fmt: skip
    assert found[cse]["Outcome"] == "passed, delegated → failed"
    assert found[cse]["Violated properties"] == "outputs: output 0 differs"
    assert found[none]["Violated properties"] == "not checked"
    for page in (html.render(run), markdown.render(run)):
        assert "Without and with passes" in page
        assert "aten.mul.Scalar 24" in page.replace("\\", "")


def test_without_such_cells_there_is_no_section(tmp_path: Path) -> None:
    run = write(tmp_path / "run", [cell()])
    assert not rows(run)
    assert "Without and with passes" not in html.render(run)
