"""A check of one model: a row a target, reasons once, and what to do where it proves little."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.record.cell import Cell, Delegation, Status
from reports.render import check, html
from reports.tests.markup import Page
from reports.tests.runs import cell, numerics, write

LEFT = Delegation(
    delegates=2,
    delegated_nodes=4,
    undelegated_nodes=6,
    delegated_ops={"aten.mm.default": 4},
    undelegated_ops={"aten.cumsum.default": 3, "aten.sort.default": 2, "aten.erf.default": 1},
    reasons={"aten.cumsum.default": {"no kernel": 2, "too wide": 1},
             "aten.sort.default": {"no kernel": 2}},
)  # fmt: skip


def shown(folder: Path, cells: list[Cell], notes: tuple[str, ...] = (), **info: Any) -> str:
    run = write(folder, cells, **info)
    out = io.StringIO()
    check.render(run, notes, Console(file=out, width=80))
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    return text


def test_a_row_has_what_is_known_of_a_target(tmp_path: Path) -> None:
    text = shown(tmp_path / "r", [cell("net", "xnnpack:fp32", delegation=LEFT)], ("x:0 varies",))
    (row,) = [line for line in text.splitlines() if "✓ passed" in line]
    for part in ("xnnpack:fp32", "native", "4/10 in 2", "2.05 kB", "140.0", "0.5×"):
        assert part in row
    assert "x:0 varies" in text
    assert "executorch 1.5.1" in text
    assert "1 of 1 cell passed" in text


def test_left_over_nodes_are_grouped_by_reason(tmp_path: Path) -> None:
    text = " ".join(shown(tmp_path / "r", [cell("net", delegation=LEFT)]).split())
    assert "xnnpack:fp32 6 nodes" in text
    assert "no kernel: aten.cumsum.default ×2, aten.sort.default ×2" in text
    assert "too wide: aten.cumsum.default ×1" in text
    assert "no reason given: aten.erf.default ×1" in text


def test_what_several_targets_say_is_said_once(tmp_path: Path) -> None:
    failed = {
        "status": Status.FAILED, "stage": "export", "error": "ValueError: it branches",
        "frame": "/somewhere/net.py:3: if x.sum() > 0:", "runtime": "none", "numerics": [],
        "delegation": Delegation(), "command": "conform check net.py:Net",
    }  # fmt: skip
    cells = [cell("net", "xnnpack:fp32", **failed), cell("net", "tosa:fp", **failed)]
    text = shown(tmp_path / "r", cells, exit_status=1)
    assert text.count("it branches") == 1
    assert "failed in stage export xnnpack:fp32, tosa:fp" in text
    assert "at /somewhere/net.py:3: if x.sum() > 0:" in text
    assert "conform check net.py:Net" in text
    assert "FAILED" in text


def test_outputs_without_signal_say_what_to_do(tmp_path: Path) -> None:
    blank = cell("net", numerics=[numerics(telling=0.0)])
    text = " ".join(shown(tmp_path / "r", [blank], exit_status=2).split())
    assert "This proves little" in text
    assert "give real inputs" in text
    assert "NOTHING PASSED" in text
    assert "FAILED" not in text
    assert "proves little" not in shown(tmp_path / "s", [cell("net")])


def test_an_unavailable_target_is_a_row_with_its_reason(tmp_path: Path) -> None:
    away = cell("net", "mlx:fp32", status=Status.UNAVAILABLE, error="mlx is not installed",
                delegation=Delegation(), stages={}, program_bytes=0)  # fmt: skip
    text = shown(tmp_path / "r", [cell("net"), away])
    assert "∅ unavailable" in text
    assert "mlx is not installed" in text


def test_cases_stand_under_their_names(tmp_path: Path) -> None:
    text = shown(tmp_path / "r", [cell("net"), cell("net/cat.npy")])
    assert "\nnet\n" in text
    assert "\nnet/cat.npy\n" in text


def test_the_page_has_the_numbers_and_reasons_of_a_small_run(tmp_path: Path) -> None:
    run = write(tmp_path / "r", [cell("net", delegation=LEFT, frame="net.py:3", command="again")])
    source = html.render(run)
    record = json.loads(Page(source).data)["cells"][0]
    assert record["why"][0] == "no kernel: aten.cumsum.default ×2, aten.sort.default ×2"
    assert record["frame"] == "net.py:3"
    assert record["repro"] == "again"
    assert 'id="few"' in source
    assert "4/10 in 2" in source
    many = write(tmp_path / "s", [cell(f"net/{number}") for number in range(30)])
    assert 'id="few"' not in html.render(many)
