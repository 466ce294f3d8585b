"""The table of models: cost and errors on each target, and differences from another run."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from harness.cli import main
from harness.record.cell import MODEL, Cell, Delegation, Status
from harness.record.host import Environment
from harness.record.program_data import Divergence
from harness.record.run import Run
from reports.outcome import CellOutcome
from reports.render import html, markdown, terminal
from reports.render.models import MEASURES, Figure, Model, collect_models
from reports.summary import RunSummary
from reports.tests.runs import cell, numerics, write

GELU = Divergence(node="gelu_3", op="aten.gelu.default", bound_used=273.0, originates_here=True)
MIB = 2**20


def model(case: str = "llama/tiny", target: str = "xnnpack:fp32", **fields: Any) -> Cell:
    given: dict[str, Any] = {
        "tags": [MODEL],
        "delegation": Delegation(
            delegates=14,
            delegated_nodes=60,
            undelegated_nodes=3,
            delegated_ops={"aten.linear.default": 60},
            undelegated_ops={"aten.embedding.default": 1, "aten.cat.default": 2},
            reasons={"aten.cat.default": {"no configuration": 2}},
        ),
        "stages": {"build": 9.0, "export": 1.0, "lower": 2.5, "serialize": 0.5, "run": 0.2},
        "memory": {"build": 900 * MIB, "lower": 210 * MIB, "run": 40 * MIB, "reference": 800 * MIB},
        "program_bytes": 544_000,
        "constant_bytes": 521_000,
        "duplicate_constant_bytes": 65_536,
        "first_seconds": 0.0031,
        "steady_seconds": 0.00012,
    }
    return cell(case, target, **(given | fields))


def wrong(**fields: Any) -> Cell:
    given: dict[str, Any] = {
        "status": Status.MISMATCH,
        "stage": "compare",
        "numerics": [numerics(bound_used=9.0, exceeding=3)],
        "first_divergence": GELU,
    }
    return model(**(given | fields))


def one(run: Run, against: Run | None = None) -> Model:
    found = collect_models(
        RunSummary.from_run(run), None if against is None else RunSummary.from_run(against)
    )
    ((made,),) = found.cases.values()
    return made


def figures(made: Model) -> dict[str, Figure]:
    return dict(zip((measure.name for measure in MEASURES), made.figures, strict=True))


def test_a_model_is_a_row_with_its_cost(tmp_path: Path) -> None:
    made = one(write(tmp_path / "r", [model(), cell("add/rank2")]))
    assert {name: figure.now for name, figure in figures(made).items()} == {
        "Delegates": "14",
        "Fallback nodes": "3",
        "Bytes": "544 kB",
        "Constants": "521 kB",
        "Stored twice": "65.5 kB",
        # From export to the program: building the model is not part of lowering.
        "Lowering time": "4.0 s",
        "Lowering peak": "210 MiB",
        "Execution peak": "40 MiB",
        "First call": "3.1 ms",
        "Steady": "120 µs",
    }
    assert made.reasons == (
        ("no configuration", "aten.cat.default ×2"),
        ("no reason given", "aten.embedding.default ×1"),
    )
    assert (made.was, made.is_new, made.diverges, made.runtime) == (None, False, "", "native")


def test_unknown_values_are_empty(tmp_path: Path) -> None:
    nothing = {"constant_bytes": None, "duplicate_constant_bytes": None, "memory": {},
               "first_seconds": None, "steady_seconds": None}  # fmt: skip
    failed = model(status=Status.FAILED, stage="export", stages={}, program_bytes=0,
                   delegation=Delegation(), runtime="none", numerics=[], **nothing)  # fmt: skip
    made = one(write(tmp_path / "r", [failed]))
    assert {figure.now for figure in made.figures} == {""}
    assert made.runtime == ""


def test_a_target_without_a_record_is_a_row(tmp_path: Path) -> None:
    run = write(tmp_path / "r", [model()], expected=[model().id, "llama/tiny@tosa:fp"])
    (members,) = collect_models(RunSummary.from_run(run)).cases.values()
    assert [made.row.outcome for made in members] == [CellOutcome.NOT_RUN, CellOutcome.PASSED]


def test_differences_from_the_other_run_are_listed(tmp_path: Path) -> None:
    before = model(
        program_bytes=479_000,
        constant_bytes=455_000,
        duplicate_constant_bytes=0,
        steady_seconds=0.00099,
        memory={"lower": 205 * MIB, "run": 90 * MIB},
        stages={"export": 1.2, "lower": 2.5, "run": 0.2},
    )
    made = one(write(tmp_path / "now", [wrong()]), write(tmp_path / "then", [before]))
    changed = {name: figure for name, figure in figures(made).items() if figure.before}
    assert changed == {
        "Bytes": Figure("544 kB", "479 kB", is_worse=True),
        "Constants": Figure("521 kB", "455 kB"),
        "Stored twice": Figure("65.5 kB", "0 B", is_worse=True),
        # Lowering took a tenth longer and used a little more memory, as happens by chance.
        "Execution peak": Figure("40 MiB", "90 MiB", is_worse=False),
        "Steady": Figure("120 µs", "990 µs", is_worse=False),
    }
    assert made.was is CellOutcome.PASSED
    assert "gelu_3" in made.diverges


def test_times_of_another_host_are_not_compared(tmp_path: Path) -> None:
    other = Environment(host="laptop", machine="arm64", cores=8)
    slow = model(steady_seconds=5.0, memory={"run": 900 * MIB}, program_bytes=1)
    now, then = write(tmp_path / "a", [model()]), write(tmp_path / "b", [slow], environment=other)
    found = collect_models(RunSummary.from_run(now), RunSummary.from_run(then))
    assert found.times_differ
    ((made,),) = found.cases.values()
    assert [name for name, one in figures(made).items() if one.before] == ["Bytes"]


def test_models_may_be_added_removed_or_diverge_at_other_nodes(tmp_path: Path) -> None:
    elsewhere = Divergence(node="tanh", op="aten.tanh.default")
    now = write(tmp_path / "now", [wrong(), model("vit/tiny")], exit_status=1)
    then = write(tmp_path / "then", [wrong(first_divergence=elsewhere), model("bert/tiny")])
    found = collect_models(RunSummary.from_run(now), RunSummary.from_run(then))
    assert found.gone == ("bert/tiny@xnnpack:fp32",)
    (llama,), (vit,) = found.cases.values()
    assert (llama.is_new, vit.is_new) == (False, True)
    assert "tanh" in llama.diverged
    again = collect_models(RunSummary.from_run(now), RunSummary.from_run(now))
    assert {each.diverged for members in again.cases.values() for each in members} == {""}


def _terminal(run: Run, against: Run | None = None) -> str:
    out = io.StringIO()
    terminal.render(run, Console(file=out, width=400), against)
    return out.getvalue()


@pytest.mark.parametrize("render", [_terminal, markdown.render, html.render])
def test_every_report_shows_them_where_there_are_any(
    tmp_path: Path, render: Callable[..., str]
) -> None:
    then = write(tmp_path / "then", [model(program_bytes=479_000)])
    now = write(tmp_path / "now", [wrong()])
    shown = render(now, then).replace("\\_", "_")
    for words in ("Models", "544 kB", "was 479 kB", "521 kB", "65.5 kB", "210 MiB", "120 µs",
                  "3.1 ms", "was passed", "gelu_3 (aten.gelu.default)"):  # fmt: skip
        assert words in shown, words
    assert "was 479 kB" not in render(now)
    assert "521 kB" in render(now)
    without = render(write(tmp_path / "none", [cell()]))
    assert "Models" not in without


def test_the_page_has_the_reasons_of_fallback_nodes(tmp_path: Path) -> None:
    page = html.render(write(tmp_path / "r", [model()]))
    assert 'title="no configuration: aten.cat.default ×2\nno reason given: aten.emb' in page
    assert 'id="models"' in page
    assert 'id="models"' not in html.render(write(tmp_path / "none", [cell()]))


def test_the_command_takes_a_run_to_hold_models_against(tmp_path: Path) -> None:
    then = write(tmp_path / "then", [model(program_bytes=479_000)])
    now = write(tmp_path / "now", [model()])
    done = CliRunner().invoke(main, ["report", str(now.path), "--against", str(then.path)])
    assert done.exit_code == 0, done.output
    assert "was 479 kB" in done.output
    assert "was 479 kB" in (now.path / "report.html").read_text()
    assert "was 479 kB" in (now.path / "report.md").read_text()
    missing = CliRunner().invoke(main, ["report", str(now.path), "--against", "nowhere"])
    assert missing.exit_code == 2
    assert "nowhere" in missing.output
