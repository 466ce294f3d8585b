"""The node where a traced cell leaves the oracle is shown wherever the cell is."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from harness.record.cell import Cell, Divergence, Status
from harness.record.folder import load
from reports.render import html, markdown, terminal, views
from reports.summary import Summary
from reports.tests.runs import cell, numerics, write

FOUND = Divergence(
    node="gelu_3",
    op="aten.gelu.default",
    source='model.py:9: x = F.gelu(x, approximate="tanh")',
    error=2.3e-4,
    bound=6.4e-7,
    bound_used=float("inf"),
    born=True,
)


def traced() -> Cell:
    return cell(
        status=Status.MISMATCH,
        stage="compare",
        numerics=[numerics(exceeding=6, bound_used=9.0, problem="6 of 6 exceed")],
        first_divergence=FOUND,
    )


def test_a_record_keeps_it_and_older_ones_have_none() -> None:
    line = traced().to_json()
    assert Cell.from_json(line).first_divergence == FOUND
    assert Cell.from_json(line.replace('"first_divergence"', '"other"')).first_divergence is None
    assert str(FOUND).endswith("error 0.00023, inf times its bound, born there")


def test_every_page_shows_it(tmp_path: Path) -> None:
    run = load(write(tmp_path / "r", [traced()]).path)
    found = Summary.of(run)
    out = Console(file=io.StringIO(), width=200)
    terminal.show(run.cells[0], out, run)
    terminal.render(found, out)
    printed = out.file.getvalue()  # type: ignore[attr-defined]
    assert printed.count("gelu_3 (aten.gelu.default)") == 2
    assert "conform trace" not in printed
    assert "first node that leaves the oracle: gelu" in markdown.render(found)
    assert "gelu_3 (aten.gelu.default)" in html.render(found)
    (row,) = found.rows
    assert views.cell_view(row, run, views.Texts())["diverges"] == str(FOUND)


def test_a_wrong_cell_without_says_how_to_find_it() -> None:
    out = Console(file=io.StringIO(), width=200)
    wrong = [numerics(exceeding=1, bound_used=2.0, problem="1 of 6 exceed")]
    terminal.show(cell(status=Status.MISMATCH, numerics=wrong, seed=3), out)
    terminal.show(cell(), out)
    printed = out.file.getvalue()  # type: ignore[attr-defined]
    assert printed.count("conform trace add/rank2@xnnpack:fp32 --seed 3") == 1
    assert "conform trace add/rank2@xnnpack:fp32 --seed 0" not in printed
