"""Contents of the terminal, Markdown and HTML reports; text in a record stays text."""

from __future__ import annotations

import io
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from harness.record.cell import CacheOrigin, Cell, Delegation, LimitationRef, Status
from harness.record.host import Environment
from harness.record.run import BackendState, Run
from reports.render import html, markdown, terminal, terminal_cell
from reports.tests.runs import cell, large, numerics, write


def _terminal(run: Run, width: int = 120) -> str:
    out = io.StringIO()
    terminal.render(run, Console(file=out, width=width))
    return out.getvalue()


def _show(item: Cell, run: Run | None = None) -> str:
    out = io.StringIO()
    terminal_cell.show(item, Console(file=out, width=160), run)
    return out.getvalue()


RENDERERS = [
    pytest.param(_terminal, id="terminal"),
    pytest.param(markdown.render, id="markdown"),
    pytest.param(html.render, id="html"),
]
Render = Callable[[Run], str]


@pytest.mark.parametrize("render", RENDERERS)
def test_a_run_shows_its_verdict_totals_failures_and_commands_to_repeat_them(
    tmp_path: Path, render: Render
) -> None:
    bad = cell("mul/b", status=Status.MISMATCH, stage="compare", error="output 0 is wrong",
               numerics=[numerics(bound_used=12.0, sqnr_db=8.5, exceeding=3)], seed=7)  # fmt: skip
    away = cell("add/a", "mlx:fp32", status=Status.XFAILED, runtime="none", numerics=[],
                limitation=LimitationRef(reason="rank 1 weights"))  # fmt: skip
    run = write(tmp_path / "night", [cell("add/a"), bad, away], exit_status=1)
    shown = render(run)
    for words in ("night", "1 of 2", "50.0 %", "mul/b@xnnpack:fp32", "output 0 is wrong",
                  "12.00× bound", "8.5 dB", "rank 1 weights", "450 ms", "2.9.0"):  # fmt: skip
        assert words in shown, words
    assert "failed" in shown.lower()
    assert "conform repro" in shown
    assert "--seed 7" in shown


@pytest.mark.parametrize("render", RENDERERS)
def test_an_incomplete_run_is_reported_with_the_reason(tmp_path: Path, render: Render) -> None:
    shown = render(
        write(tmp_path / "r", [cell()], expected=[cell().id, "mul/a@tosa:fp"], end=False)
    )
    assert "INCOMPLETE" in shown or "Incomplete" in shown
    assert "did not end by itself" in shown
    assert "mul/a@tosa:fp" in shown
    assert "not run" in shown


@pytest.mark.parametrize("render", RENDERERS)
def test_an_empty_run_is_rendered_as_empty(tmp_path: Path, render: Render) -> None:
    assert "empty" in render(write(tmp_path / "r", [])).lower()


@pytest.mark.parametrize("render", RENDERERS)
def test_a_run_without_passes_is_not_shown_as_passed(tmp_path: Path, render: Render) -> None:
    away = cell(status=Status.UNAVAILABLE, runtime="none", numerics=[], delegation=Delegation())
    backends = {"xnnpack": BackendState(available=False, reason="not built in")}
    shown = render(write(tmp_path / "r", [away], backends=backends))
    assert "nothing passed" in shown.lower()
    assert "not built in" in shown
    assert "100 %" not in shown


@pytest.mark.parametrize("render", RENDERERS)
def test_nonfinite_numbers_are_shown(tmp_path: Path, render: Render) -> None:
    broken = numerics(max_abs=math.inf, bound_used=math.nan, sqnr_db=-math.inf, cosine=math.nan,
                      max_ulp=math.inf, exceeding=6, bound=0.0)  # fmt: skip
    bad = cell(status=Status.MISMATCH, numerics=[broken], seconds=math.inf,
               stages={"run": math.nan, "lower": math.inf})  # fmt: skip
    shown = render(write(tmp_path / "r", [bad]))
    assert "∞" in shown
    assert "NaN× bound" in shown
    assert "−∞ dB" in shown


@pytest.mark.parametrize("render", RENDERERS)
def test_a_large_run_renders_with_all_kinds_of_outcome(tmp_path: Path, render: Render) -> None:
    shown = render(large(tmp_path / "r", cases=64))
    for words in ("mismatch", "crashed", "unavailable", "lowered only", "not run", "unsupported"):
        assert words in shown


@pytest.mark.parametrize("render", RENDERERS)
def test_the_largest_cells_are_named_with_their_stage(tmp_path: Path, render: Render) -> None:
    held = [cell(f"a/{n}", memory={"lower": n << 27, "run": 5}) for n in range(1, 30)]
    shown = render(write(tmp_path / "r", held))
    assert "Largest cells" in shown
    assert "3.62 GiB" in shown
    assert "Largest cells" not in render(write(tmp_path / "none", [cell()]))


def test_a_killed_cell_shows_its_memory(tmp_path: Path) -> None:
    said = "memory: 3.02 GiB at stage run; the budget is 3 GiB above the worker's base"
    dead = cell(status=Status.CRASHED, stage="run", error=said, stages={}, seconds=0.0,
                memory={"lower": 40 << 20, "run": 3100 << 20})  # fmt: skip
    shown = _show(dead)
    assert said in shown
    assert re.search(r"Time and memory.*lower\s+40 MiB.*run\s+3\.03 GiB", shown, re.DOTALL)


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_the_terminal_drops_no_count_however_narrow(tmp_path: Path, width: int) -> None:
    shown = " ".join(_terminal(large(tmp_path / "r", cases=64), width).split())
    table, listed = "! crashed" in shown, "1 crashed" in shown
    assert table or listed


def test_the_terminal_bounds_the_failures_and_counts_the_rest(tmp_path: Path) -> None:
    bad = [cell(f"a/{n}", status=Status.FAILED, error="no") for n in range(27)]
    shown = _terminal(write(tmp_path / "r", bad))
    assert shown.count("conform repro") == terminal.FAILURES_SHOWN
    assert "and 7 more" in shown


def test_the_terminal_shows_brackets_and_drops_escape_sequences(tmp_path: Path) -> None:
    bad = cell(status=Status.FAILED, error="[bold]shape [2, 3][/bold] \x1b[31mred\x1b]0;title\x07")
    shown = _terminal(write(tmp_path / "r", [bad]))
    assert "[bold]shape [2, 3][/bold] red" in shown
    assert "\x1b" not in shown


def test_show_has_everything_of_a_cell(tmp_path: Path) -> None:
    bad = cell(
        status=Status.MISMATCH,
        stage="compare",
        error="output 1 is wrong",
        traceback="Traceback:\n  here",
        numerics=[numerics(), numerics(output=1, exceeding=2, bound_used=40.0, problem="shape")],
        delegation=Delegation(delegates=1, delegated_nodes=2, undelegated_nodes=1,
                              delegated_ops={"aten.mm": 2}, undelegated_ops={"aten.cat": 1}),
        limitation=LimitationRef(reason="a reason", link="https://example.org"),
    )  # fmt: skip
    run = write(tmp_path / "r", [bad])
    shown = _show(run.cells[0], run)
    for words in ("mismatch", "compare", "output 1 is wrong", "Traceback", "aten.mm ×2",
                  "aten.cat ×1", "40.00× bound", "a reason", "https://example.org", "120 ms",
                  "40 µs", "2.05 kB", "torch 2.9.0", bad.repro):  # fmt: skip
        assert words in shown, words


def test_a_cell_of_a_cluster_names_its_worker_and_earlier_attempts(tmp_path: Path) -> None:
    lost = cell("add/a", worker="lab-3", attempts=["lab-1 was lost: it died"])
    run = write(tmp_path / "night", [lost])
    run.info.hosts = {"lab-3": Environment(host="rack7", vectors="aarch64/asimd")}
    shown = _show(lost, run)
    assert "lab-3 (rack7 · aarch64/asimd" in shown
    assert "lab-1 was lost: it died" in shown
    assert "lab-1 was lost: it died" in html.render(run)
    assert "lab-3 (rack7" in _terminal(run)


def test_importing_reports_imports_nothing_heavy() -> None:
    root = Path(__file__).parents[3]
    heavy = ["torch", "pandas", "numpy", "rich", "jinja2", "executorch"]
    program = f"import sys, reports; print([name for name in {heavy} if name in sys.modules])"
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


def test_results_of_earlier_runs_are_marked(tmp_path: Path) -> None:
    source = CacheOrigin(run="last night", host="rack7", when="2026-06-10T10:00:00+00:00")
    taken = cell("add/a", cached=source)
    run = write(tmp_path / "night", [taken, cell("add/b")])
    for render in (_terminal, markdown.render, html.render):
        shown = " ".join(render(run).split())
        assert "1 cell reused from earlier runs: 1 of last night" in shown
        assert "2 of 2 cells passed; 1 of these results are cached results of earlier runs" in shown
    assert "last night on rack7, 2026-06-10T10:00:00+00:00" in _show(taken, run)
