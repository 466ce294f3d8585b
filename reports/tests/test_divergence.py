"""The first diverging node of a traced cell is shown wherever the cell is shown."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
from rich.console import Console

from harness.record.cell import Cell, Status
from harness.record.folder import load
from harness.record.program_data import Divergence
from reports import facts
from reports.render import html, markdown, terminal, terminal_cell, views
from reports.summary import RunSummary
from reports.tests.runs import cell, numerics, write

FOUND = Divergence(
    node="gelu_3",
    op="aten.gelu.default",
    source='model.py:9: x = F.gelu(x, approximate="tanh")',
    error=2.3e-4,
    bound=6.4e-7,
    bound_used=float("inf"),
    originates_here=True,
)


def traced() -> Cell:
    return cell(
        status=Status.MISMATCH,
        stage="compare",
        numerics=[numerics(exceeding=6, bound_used=9.0, problem="6 of 6 exceed")],
        first_divergence=FOUND,
    )


def test_new_records_have_a_divergence_and_older_ones_none() -> None:
    line = traced().to_json()
    assert Cell.from_json(line).first_divergence == FOUND
    assert Cell.from_json(line.replace('"first_divergence"', '"other"')).first_divergence is None
    assert str(FOUND).endswith("error 0.00023, inf times its bound; the error originates here")


def test_every_page_shows_it(tmp_path: Path) -> None:
    run = load(write(tmp_path / "r", [traced()]).path)
    found = RunSummary.from_run(run)
    out = Console(file=io.StringIO(), width=200)
    terminal_cell.show(run.cells[0], out, run)
    terminal.render(found, out)
    printed = out.file.getvalue()  # type: ignore[attr-defined]
    assert printed.count("gelu_3 (aten.gelu.default)") == 2
    assert "conform trace" not in printed
    assert "first diverging node: gelu" in markdown.render(found)
    assert "gelu_3 (aten.gelu.default)" in html.render(found)
    (row,) = found.rows
    assert views.cell_view(row, run, views.Texts())["diverges"] == str(FOUND)


def test_a_mismatch_without_a_divergence_names_the_command_to_trace_it() -> None:
    out = Console(file=io.StringIO(), width=200)
    wrong = [numerics(exceeding=1, bound_used=2.0, problem="1 of 6 exceed")]
    terminal_cell.show(cell(status=Status.MISMATCH, numerics=wrong, seed=3), out)
    terminal_cell.show(cell(), out)
    printed = out.file.getvalue()  # type: ignore[attr-defined]
    assert printed.count("conform trace add/rank2@xnnpack:fp32 --seed 3") == 1
    assert "conform trace add/rank2@xnnpack:fp32 --seed 0" not in printed


def test_why_a_wrong_model_was_not_traced_is_shown(tmp_path: Path) -> None:
    known = traced()
    known.first_divergence, known.trace_skipped = None, "it takes 90 s to run it once"
    run = write(tmp_path / "r", [known])
    out = Console(file=io.StringIO(), width=200)
    terminal_cell.show(known, out)
    terminal.render(run, out)
    assert out.file.getvalue().count("not known: it takes 90 s") == 2  # type: ignore[attr-defined]
    assert "not known: it takes 90 s" in markdown.render(run)
    (row,) = RunSummary.from_run(run).rows
    assert views.cell_view(row, run, views.Texts())["diverges"].startswith("not known: it takes")


def test_a_cell_shows_its_constants_and_the_time_of_a_call() -> None:
    out = Console(file=io.StringIO(), width=200)
    terminal_cell.show(
        cell(
            program_bytes=2048,
            constant_bytes=1024,
            duplicate_constant_bytes=512,
            first_seconds=0.25,
            steady_seconds=0.002,
        ),
        out,
    )
    printed = out.file.getvalue()  # type: ignore[attr-defined]
    assert "2.05 kB, 1.02 kB of them constants, 512 B of constants stored twice" in printed
    assert "first 250 ms, steady 2 ms" in printed


def test_a_search_that_ended_early_names_no_first_node() -> None:
    early = traced()
    early.first_divergence = msgspec.structs.replace(FOUND, note="given up after 3 programs")
    assert facts.divergence(traced()).startswith("first diverging node: gelu_3")
    assert facts.divergence(early).startswith("a diverging node: gelu_3")
    assert facts.divergence(early).endswith("given up after 3 programs")
