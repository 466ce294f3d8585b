"""``conform check`` in a folder with only a model: rows, files and exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.checking.messages import CellsPlanned, CellTraced, CheckRequest
from harness.checking.supervisor import supervise
from harness.cli import main
from harness.cli.check_progress import CheckFollower
from harness.record.cell import Cell, Status
from harness.record.folder import format_now, load
from harness.record.run import Run, RunInfo
from harness.workers.protocol import CellEnded, CellStarted

ROOT = Path(__file__).parents[3]

#: Ends the process at its third run, but only once: a file records that it has.
DEADLY = """
import ctypes, pathlib, torch

print("the file is read")

class Deadly(torch.nn.Module):
    runs = 0
    example_inputs = (torch.randn(3, 4),)

    def forward(self, x):
        Deadly.runs += 1
        if Deadly.runs == 3 and not pathlib.Path("died").exists():
            pathlib.Path("died").touch()
            ctypes.string_at(0)
        return torch.sin(x)
"""


def conform(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "harness.cli", "check", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.nightly
def test_a_target_that_ends_the_process_is_a_row_and_the_others_run(folder: Path) -> None:
    (folder / "deadly.py").write_text(DEADLY)
    done = conform(folder, "deadly.py:Deadly", "--targets", "null:eager,portable:fp32",
                   "--save", "saved", "--html", "page.html", "--json")  # fmt: skip
    assert done.returncode == 1, done.stderr
    cells = [Cell.from_json(line) for line in done.stdout.splitlines()]
    assert [cell.status for cell in cells] == [Status.CRASHED, Status.PASSED]
    crashed, passed = cells
    assert crashed.error == f"the process was ended by {signal.SIGSEGV.name}"
    assert crashed.model_frame is not None
    assert crashed.model_frame.endswith("ctypes.string_at(0)")
    assert crashed.stage in ("export", "reference", "build")
    assert "the file is read" in done.stderr
    assert passed.repro == "conform check deadly.py:Deadly --targets portable:fp32 --seed 0"
    # The folder is an ordinary run folder, with programs beside the records.
    run = load(folder / "saved")
    assert run.is_complete
    assert run.info.exit_status == 1
    assert run.info.selection == "deadly.py:Deadly"
    assert [cell.to_json() for cell in run.cells] == [cell.to_json() for cell in cells]
    programs = list((folder / "saved" / "programs").iterdir())
    assert [path.name for path in programs] == ["deadly.Deadly@portable_fp32.pte"]
    assert len(programs[0].read_bytes()) == passed.program_bytes
    assert "deadly.Deadly@null:eager" in (folder / "page.html").read_text()
    assert (folder / "saved" / "report.html").exists()
    # And other commands read it, without a suite.
    for command in (
        ["diff", "saved", "saved"],
        ["show", "deadly.Deadly@portable:fp32", "saved"],
        ["report", "saved"],
    ):
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, result.output
    again = CliRunner().invoke(main, ["check", "deadly.py:Deadly", "--save", "saved"])
    assert again.exit_code == 2
    assert "already holds a run" in again.stderr


@pytest.mark.nightly
def test_a_target_that_allocates_without_end_is_a_row(folder: Path) -> None:
    endless = "kept = []\n            while True: kept.append(b'x' * (1 << 20))"
    (folder / "hog.py").write_text(DEADLY.replace("ctypes.string_at(0)", endless))
    done = conform(folder, "hog.py:Deadly", "--targets", "null:eager,portable:fp32",
                   "--cell-memory", "0.3", "--json")  # fmt: skip
    assert done.returncode == 1, done.stderr
    crashed, passed = (Cell.from_json(line) for line in done.stdout.splitlines())
    assert (crashed.status, passed.status) == (Status.CRASHED, Status.PASSED)
    assert crashed.error is not None
    assert f"GiB at stage {crashed.stage}; the budget is 0.3 GiB" in crashed.error
    assert 0.3 * 2**30 < crashed.memory[str(crashed.stage)] < 1.5 * 2**30
    assert crashed.repro.endswith("--cell-memory 0.3")


@pytest.mark.nightly
def test_a_target_that_never_ends_is_a_timeout_with_its_line(folder: Path) -> None:
    slow = DEADLY.replace("ctypes.string_at(0)", "import time; time.sleep(600)")
    (folder / "slow.py").write_text(slow)
    request = CheckRequest(source="slow.py:Deadly", targets="null:eager,portable:fp32")
    cells, plans, began = [], [], []
    for event in supervise(request, timeout=20):
        match event:
            case CellEnded():
                cells.append(Cell.from_json(event.record))
            case CellsPlanned():
                plans.append(event)
            case CellStarted():
                began.append(event.cell)
    assert [cell.status for cell in cells] == [Status.TIMEOUT, Status.PASSED]
    assert cells[0].error == "it did not end within 20 s"
    assert cells[0].model_frame is not None
    assert cells[0].model_frame.endswith("time.sleep(600)")
    assert 20 <= cells[0].seconds < 60
    assert len(plans) == 1
    assert began == plans[0].cells


#: The runtime's kernel of ``sum`` asserts that a scalar has a dimension, and aborts.
ABORTS = """
import torch

class Aborts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.example_inputs = (torch.randn(2, 4),)

    def forward(self, x):
        hidden = self.layer(x)
        total = hidden.flatten()[0].sum(-1)  # here
        return torch.tanh(hidden) * total
"""


@pytest.mark.nightly
def test_a_crash_reports_its_last_output_its_node_and_the_delegated_nodes(folder: Path) -> None:
    (folder / "aborts.py").write_text(ABORTS)
    done = conform(folder, "aborts.py:Aborts", "--targets", "portable:fp32,xnnpack:fp32", "--json")
    assert done.returncode == 1, done.stderr
    cells = [Cell.from_json(line) for line in done.stdout.splitlines()]
    assert [cell.target for cell in cells] == ["portable:fp32", "xnnpack:fp32"]
    for cell in cells:
        assert (cell.status, cell.stage) == (Status.CRASHED, "run")
        assert cell.error is not None
        assert cell.error.startswith("the process was ended by SIGABRT: ")
        assert "assert failed (dim < dim_ && dim >= 0)" in cell.error
        found = cell.first_divergence
        assert found is not None
        assert (found.op, found.fails, found.arguments[0]) == (
            "aten.sum.dim_IntList", True, "float32[]"
        )  # fmt: skip
        assert found.source.endswith("total = hidden.flatten()[0].sum(-1)  # here")
        assert found.source.startswith("aborts.py:")
        assert cell.program_bytes > 0
        assert sum(cell.planned_memory) > 0
        assert cell.delegation.undelegated_ops["aten.sum.dim_IntList"] == 1
        assert ["rank is 0" in issue.workaround for issue in cell.known_issues] == [True]
    assert cells[1].delegation.delegates > 0


#: A pass in native code that does not survive a tanh.
DEADLY_PASS = """
import ctypes
from executorch.exir.pass_base import ExportPass

class Dies(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        if "tanh" in str(op):
            libc = ctypes.CDLL(None)
            libc.perror(b"pass.cpp:12: Assertion `has_table' failed")
            libc.abort()
        return super().call_operator(op, args, kwargs, meta)
"""


@pytest.mark.nightly
def test_a_crash_in_lowering_names_its_node(folder: Path) -> None:
    (folder / "aborts.py").write_text(ABORTS)
    (folder / "deadly_pass.py").write_text(DEADLY_PASS)
    done = conform(folder, "aborts.py:Aborts", "--targets", "null:eager",
                   "--transform-pass", "deadly_pass.py:Dies", "--json")  # fmt: skip
    (cell,) = (Cell.from_json(line) for line in done.stdout.splitlines())
    assert (cell.status, cell.stage) == (Status.CRASHED, "lower")
    assert cell.error is not None
    assert "pass.cpp:12: Assertion `has_table' failed" in cell.error
    assert cell.first_divergence is not None
    assert (cell.first_divergence.op, cell.first_divergence.stage) == ("aten.tanh.default", "lower")
    assert cell.first_divergence.source.endswith("return torch.tanh(hidden) * total")
    assert cell.known_issues == []


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os; os._exit(0)", "ends the process that runs it: it ended with exit code 0"),
        ("import ctypes; ctypes.string_at(0)", "it was ended by SIGSEGV, at "),
        ("import sys; sys.exit(3)", "does not import: it exits (3), at "),
        ("", "has nothing named 'build'; bad.py has no function and no module"),
    ],
)
def test_a_file_that_ends_the_process_is_one_line(folder: Path, code: str, said: str) -> None:
    (folder / "bad.py").write_text(code)
    done = conform(folder, "bad.py:build")
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert done.stderr.startswith("conform: bad.py")
    assert done.stderr.count("\n") == 1


@pytest.mark.nightly
def test_nothing_that_was_not_run_is_green(folder: Path) -> None:
    (folder / "small.py").write_text(
        "import torch\n"
        "def build():\n    return torch.nn.Linear(3, 2), torch.randn(4, 3)\n"
        "def blank():\n    return torch.nn.Threshold(9.0, 0.0), torch.rand(4, 3)\n"
    )
    unsupported = conform(folder, "small.py:build", "--targets", "tosa:mxfp4")
    assert unsupported.returncode == 2, unsupported.stderr
    assert "unsupported" in unsupported.stdout
    assert "NOTHING PASSED" in unsupported.stdout
    vacuous = conform(folder, "small.py:blank", "--targets", "portable:fp32")
    assert vacuous.returncode == 2, vacuous.stderr
    assert "output 0: 12 of 12 elements are within their bounds of the constant 0: all values" in (
        " ".join(vacuous.stdout.split())
    )
    told = conform(folder, "small.py:build", "--targets", "portable:fp32,tosa:mxfp4")
    assert told.returncode == 0, told.stderr


#: XNNPACK computes this gelu as the exact one.
APPROXIMATE = """
import torch

class Net(torch.nn.Module):
    example_inputs = (torch.linspace(-3, 3, 12).reshape(3, 4),)

    def forward(self, x):
        return torch.nn.functional.gelu(x * 1.5, approximate="tanh") + 1
"""


@pytest.mark.parametrize("asked", [(), pytest.param(("--trace",), marks=pytest.mark.nightly)])
@pytest.mark.nightly
def test_a_mismatch_is_traced_and_its_record_has_the_first_node(
    folder: Path, asked: tuple[str, ...]
) -> None:
    (folder / "net.py").write_text(APPROXIMATE)
    done = conform(folder, "net.py:Net", "--targets", "xnnpack:fp32,portable:fp32", *asked,
                   "--save", "saved")  # fmt: skip
    assert done.returncode == 1, done.stderr
    printed = " ".join(done.stdout.split())
    assert "first diverging node: gelu (aten.gelu.default)" in printed
    # How the defect was found, for reference.
    assert ("first diverging node: gelu aten.gelu.default" in printed) == bool(asked)
    assert ("conform reduce net.py:Net --target xnnpack:fp32" in printed) == bool(asked)
    wrong, right = load(folder / "saved").cells
    assert wrong.first_divergence is not None
    assert wrong.first_divergence.op == "aten.gelu.default"
    assert wrong.first_divergence.originates_here is True
    assert wrong.first_divergence.source.startswith("net.py:8")
    assert (right.status, right.first_divergence) == (Status.PASSED, None)


def test_a_record_is_written_even_if_tracing_fails(tmp_path: Path) -> None:
    run = Run(path=tmp_path, info=RunInfo(started=format_now(), seed=0), cells=[])
    lines: list[str] = []
    following = CheckFollower(run, tmp_path / "saved", lambda cell: "again", lines.append)
    cell = Cell(case="net", target="null:eager", status=Status.FAILED, stage="lower", error="no")
    following.handle(CellsPlanned([cell.id], [], {}))
    following.handle(CellStarted(cell.id))
    following.handle(CellEnded(cell.id, cell.to_json()))
    following.handle(CellTraced(cell.id, problem="the process was ended by SIGSEGV"))
    following.flush()
    assert following.writer is not None
    following.writer.close(exit_status=1)
    assert lines == ["1 of 1: net@null:eager"]
    (kept,) = load(tmp_path / "saved").cells
    assert (kept.command, kept.status) == ("again", Status.FAILED)
    assert kept.trace_skipped == "the process was ended by SIGSEGV"
