"""The command line prints help without importing torch, and reports errors in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.cli import main
from harness.model import registry
from harness.model.backend import Availability
from harness.record.cell import Cell, Delegation, Numerics, Status
from harness.record.folder import CELLS_FILE, RunWriter
from harness.record.run import RunInfo

ROOT = Path(__file__).parents[2]


def conform(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    writer = RunWriter(tmp_path / "run", RunInfo(expected=["add/a@x:y", "add/b@x:y"]))
    numbers = Numerics(
        call=0, output=0, dtype="float32", shape=[2], max_abs=0.5, mean_abs=0.1, max_ulp=3.0,
        sqnr_db=12.0, rel_fro=0.1, cosine=0.9, bound=0.25, bound_used=2.0, exceeding=1, elements=2,
        problem="1 of 2 elements exceed the bound",
    )  # fmt: skip
    left = Delegation(undelegated_nodes=1, undelegated_ops={"aten.add.Tensor": 1})
    writer.append(
        Cell(case="add/a", target="x:y", status=Status.MISMATCH, stage="compare", runtime="native",
             error=numbers.problem, numerics=[numbers], delegation=left)
    )  # fmt: skip
    writer.append(Cell(case="add/b", target="x:y", status=Status.PASSED, runtime="native"))
    writer.close(exit_status=1)
    return writer.path


@pytest.mark.parametrize("command", [[], *([name] for name in main.commands)])
@pytest.mark.one_of(4)
def test_help_needs_no_torch(command: list[str]) -> None:
    code = (
        "import sys; from harness.cli import main\n"
        f"try: main({[*command, '--help']!r})\n"
        "finally: assert 'torch' not in sys.modules, 'torch was imported'"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "Usage:" in result.stdout


def test_report_ends_with_the_path_of_the_page(run_folder: Path) -> None:
    result = conform("report", str(run_folder))
    assert result.exit_code == 0, result.output
    page = Path(result.output.strip().splitlines()[-1])
    assert page == run_folder / "report.html"
    assert "add/a@x:y" in page.read_text()
    assert "add/a@x:y" in (run_folder / "report.md").read_text()


def test_show_prints_one_cell(run_folder: Path) -> None:
    result = conform("show", "add/a@x:y", str(run_folder))
    assert result.exit_code == 0, result.output
    for text in ("mismatch", "compare", "12", "aten.add.Tensor", "conform repro add/a@x:y"):
        assert text in result.output


def test_show_prints_the_record_as_json(run_folder: Path) -> None:
    result = conform("show", "add/a@x:y", str(run_folder), "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["case"] == "add/a"
    assert conform("show", "program.pte", str(run_folder)).exit_code == 2


def test_the_old_option_for_a_run_works_and_names_the_argument(run_folder: Path) -> None:
    result = conform("show", "add/a@x:y", "--run", str(run_folder), "--no-program")
    assert result.exit_code == 0, result.output
    assert "add/a" in result.stdout
    assert "Give the folder as the argument RUN." in result.stderr
    assert conform("show", "add/a@x:y", str(run_folder), "--run", "other").exit_code == 2


def test_a_truncated_record_is_reported_and_the_rest_is_read(run_folder: Path) -> None:
    cells = run_folder / CELLS_FILE
    cells.write_bytes(cells.read_bytes()[:-30])
    result = conform("report", str(run_folder))
    assert result.exit_code == 0, result.output
    assert "line 2" in result.output
    assert "add/a@x:y" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("report", "/no/such/folder"), "/no/such/folder"),
        (("report", "{root}"), "not a run folder"),
        (("show", "add/c@x:y", "{run}"), "no cell 'add/c@x:y'"),
        (("show", "add/a"), "case@backend:recipe"),
        (("repro", "add"), "case@backend:recipe"),
        (("repro", "add/a@tossa:fp"), "did you mean 'tosa'"),
        (("repro", "add/a@tosa:fpp"), "did you mean 'fp'"),
        (("repro", "add/same_shap@null:eager", "--suites", "{suites}"), "add/same_shape"),
    ],
)
def test_an_error_is_one_line_that_names_the_thing(
    run_folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    places = {"run": run_folder, "root": run_folder.parent, "suites": ROOT / "suites"}
    result = conform(*(text.format(**places) for text in arguments))
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1, result.stderr


@pytest.mark.parametrize("arguments", [("nonsense",), ("report", "--nonsense"), ("repro",),
                                       ("run", "--quick", "suites/ops")])  # fmt: skip
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    result = conform(*arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr


def test_an_empty_selection_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = conform("run", "-k", "no_such_case", "-n", "0", "--targets", "null:eager",
                     "suites/ops/cast.py")  # fmt: skip
    assert result.exit_code == 2
    assert "no cell matches" in result.stderr


def test_backends_lists_all_of_them() -> None:
    result = conform("list", "backends")
    assert result.exit_code == 0, result.output
    for name in ("portable", "xnnpack", "tosa", "null"):
        assert name in result.output


def test_reasons_of_backends_keep_the_names_of_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Availability(False, "pip install 'executorch-conform[openvino]'")
    monkeypatch.setattr(type(registry.backend("null")), "availability", lambda self: state)
    assert "[openvino]" in conform("list", "backends").output.replace("\n", "")


def test_repro_runs_one_cell_and_saves_its_program(tmp_path: Path) -> None:
    program = tmp_path / "add.pte"
    result = conform(
        "repro", "add/same_shape@null:eager", "--suites", str(ROOT / "suites"), "--save",
        str(program),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "passed" in result.output
    assert program.read_bytes()[4:8] == b"ET12"


def test_passes_lists_the_passes_of_targets() -> None:
    result = conform("passes")
    assert result.exit_code == 0, result.output
    for name in ("remove_noop", "fuse_rms_norm", "mlx_reinplace"):
        assert name in result.stdout


def test_the_limitation_table_is_current() -> None:
    result = conform("list", "limitations", "--suites", str(ROOT / "suites"))
    assert result.exit_code == 0, result.output
    written = (ROOT / "docs" / "limitations.md").read_text(encoding="utf-8")
    assert written.strip() == result.stdout.strip(), (
        "docs/limitations.md is stale: conform list limitations --write docs/limitations.md"
    )
