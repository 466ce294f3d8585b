"""Runs with --lower-only, stale known issues, and vacuous passes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from harness import Case, run_cell
from harness.pytest_plugin.tests.sessions import ROOT, WORKERS, outcomes, run
from harness.record.cell import Status
from harness.record.folder import load

LOWERS_ONLY = """
import dataclasses
from backends.null import BACKEND as NULL
from harness import registry
from harness.model.backend import Availability

class Backend:
    name = "away"
    recipes = NULL.recipes

    def availability(self):
        return Availability(False, "no runtime on this host", can_lower={can_lower})

    def execute(self, program, calls):
        raise AssertionError("nothing can execute here")

BACKEND = Backend()
"""


def away(project: Path, *, can_lower: bool) -> dict[str, str]:
    """A backend that cannot execute here, as an installed one."""
    site = project / "site"
    site.mkdir()
    (site / "away.py").write_text(LOWERS_ONLY.format(can_lower=can_lower))
    info = site / "away-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: away\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[conform.backends]\naway = away:BACKEND\n")
    return {"PYTHONPATH": f"{ROOT}:{site}"}


SEEDED = """
NAMES = ("seed", "progress", "keep", "coverage", "cluster")

def pytest_addoption(parser):
    for name in NAMES:
        parser.addoption(f"--other-{name}", dest=name, default="theirs")

def pytest_sessionfinish(session):
    assert {session.config.getoption(name) for name in NAMES} == {"theirs"}
    print("other options are theirs")
"""


def test_values_of_another_plugins_options_stay_its_own(project: Path) -> None:
    (project / "seeded.py").write_text(SEEDED)
    result = run(project, "-s", "-p", "seeded", "-n", "1", "--seed", "3", env={
        "PYTHONPATH": f"{ROOT}:{project}"})  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert "other options are theirs" in result.stdout
    assert load(project / "run").info.seed == 3


@pytest.mark.parametrize("workers", WORKERS)
def test_a_run_that_lowers_only_is_what_was_asked_for(project: Path, workers: str) -> None:
    result = run(project, "-n", workers, "--lower-only", reports=True)
    assert result.returncode == 0, result.stdout
    record = load(project / "run")
    assert record.info.lower_only
    assert record.is_complete
    assert set(outcomes(record).values()) == {Status.LOWERED}
    for cell in record.cells:
        assert cell.runtime == "none"
        assert not cell.numerics
        assert cell.program_bytes > 0
        assert "serialize" in cell.stages
        assert "run" not in cell.stages
    assert "lowered only, not executed" in (project / "run" / "report.md").read_text().lower()
    assert "lowered only, not executed" in result.stdout.lower()


def test_it_does_not_go_with_comparing_runtimes(project: Path) -> None:
    result = run(project, "-n", "0", "--lower-only", "--compare-runtimes")
    assert result.returncode == 4
    assert "--lower-only executes nothing" in result.stderr


def test_a_host_that_can_lower_but_not_execute_is_not_green(project: Path) -> None:
    env = away(project, can_lower=True)
    result = run(project, "-n", "0", targets="away", env=env)
    assert result.returncode == 1, result.stdout
    assert "backend away was expected and is not available" in result.stdout
    record = load(project / "run")
    assert set(outcomes(record).values()) == {Status.LOWERED}
    assert {cell.error for cell in record.cells} == {"no runtime on this host"}
    # Asked for, it is all that host can do, and fine.
    result = run(project, "-n", "0", "--lower-only", "--run-dir", "again", targets="away", env=env)
    assert result.returncode == 0, result.stdout


def test_a_host_that_cannot_even_lower_is_red_however_asked(project: Path) -> None:
    env = away(project, can_lower=False)
    result = run(project, "-n", "0", "--lower-only", targets="away", env=env)
    assert result.returncode == 1, result.stdout
    assert set(outcomes(load(project / "run")).values()) == {Status.UNAVAILABLE}


def test_stages_and_overhead_add_up() -> None:
    cell = run_cell(Case("add/one", lambda: (Twice(), (torch.ones(2),))), "null:eager")
    assert cell.status is Status.PASSED
    assert "reference" in cell.stages
    assert cell.overhead == pytest.approx(cell.seconds - sum(cell.stages.values()))
    assert 0 <= cell.overhead < cell.seconds


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


STALE = """
import dataclasses
from harness import registry
from harness.pytest_plugin.tests import sessions

null = registry.backend("null")
recipe = null.recipes["eager"]

def unsupported(case, *built):
    return "declared out of scope" if case.name in {declared!r} else None

null.recipes["eager"] = dataclasses.replace(recipe, unsupported=unsupported)
pytest_plugins = ["harness.pytest_plugin"]
"""


@pytest.mark.parametrize(
    ("declared", "arguments", "stale"),
    [
        (("sub/d", "add/c"), ("-n", "0"), True),
        pytest.param(("sub/d", "add/c"), ("-n", "1"), True, marks=pytest.mark.nightly),
        # One cell of it is still explained, and a narrower run cannot tell.
        (("sub/d",), ("-n", "0"), False),
        pytest.param(
            ("sub/d", "add/c"), ("-n", "0", "-k", "sub"), False, marks=pytest.mark.nightly
        ),
    ],
)
def test_a_limitation_whose_cells_are_all_declared_unsupported_is_stale(
    project: Path, declared: tuple[str, ...], arguments: tuple[str, ...], stale: bool
) -> None:
    (project / "conftest.py").write_text(STALE.format(declared=declared))
    (project / "suites" / "limitations.py").write_text(
        "from harness.record.cell import Status\n"
        "from harness.model.limitation import Limitation\n"
        "LIMITATIONS = [Limitation(target='null:*', case='sub/d|add/c', reason='never seen',\n"
        "                          run=False)]\n"
    )
    result = run(project, *arguments)
    assert result.returncode == int(stale), result.stdout
    problems = load(project / "run").info.problems
    assert bool(problems) is stale
    if stale:
        assert "limitation sub/d|add/c on null:* of suites is stale" in problems[0]
        assert "all 2 of its cells are declared unsupported" in problems[0]


VACUOUS = """
import dataclasses
import pytest
import harness.pipeline.runner
from harness.record.cell import Status

run_cell = harness.pipeline.runner.run_cell

def without_signal(case, target, **options):
    cell = run_cell(case, target, **options)
    import msgspec
    if case.name.startswith("add"):
        rows = [msgspec.structs.replace(row, conclusive_share=0.0) for row in cell.numerics]
        cell.numerics = rows
        cell.vacuous_reason = "zeros by design" if case.name == "add/b" else ""
    return cell

harness.pipeline.runner.run_cell = without_signal
pytest_plugins = ["harness.pytest_plugin"]
"""


@pytest.mark.parametrize(
    ("ini", "code"),
    [
        pytest.param("", 0, marks=pytest.mark.nightly),
        ("warn", 0),
        ("error", 1),
        pytest.param("maybe", 4, marks=pytest.mark.nightly),
    ],
)
def test_passes_that_tell_nothing_are_counted_or_red(project: Path, ini: str, code: int) -> None:
    (project / "conftest.py").write_text(VACUOUS)
    if ini:
        file = project / "pytest.ini"
        file.write_text(f"{file.read_text()}conform_vacuous = {ini}\n")
    result = run(project, "-n", "0")
    assert result.returncode == code, result.stdout + result.stderr
    if code == 4:
        assert "conform_vacuous is 'maybe'" in result.stderr
        return
    record = load(project / "run")
    assert set(outcomes(record).values()) == {Status.PASSED}
    if code:
        assert "2 cells passed vacuously" in record.info.problems[0]
        assert "add/a@null:eager, add/c@null:eager" in record.info.problems[0]
        assert record.info.problems[0] in result.stdout


@pytest.mark.parametrize(
    ("arguments", "installed"),
    [pytest.param((), True, marks=pytest.mark.nightly), (("--no-speed",), False)],
)
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.nightly
def test_torch_is_left_as_it_is_when_asked(
    project: Path, workers: str, arguments: tuple[str, ...], installed: bool
) -> None:
    (project / "suites" / "test_speed.py").write_text(
        "from torchao.quantization.pt2e.observer import HistogramObserver\n"
        "import harness.pipeline.tester\n"
        "def test_it():\n"
        "    search = HistogramObserver._non_linear_param_search\n"
        f"    assert (search.__module__ == 'harness.pipeline.speed.calibration') is {installed}\n"
    )
    result = run(project, "-n", workers, "-k", "add/a or test_it", *arguments)
    assert result.returncode == 0, result.stdout
    assert "2 passed" in result.stdout
    assert load(project / "run").info.speed is installed


def test_torch_is_left_as_it_is_in_parts(project: Path) -> None:
    (project / "suites" / "test_speed.py").write_text(
        "from torch.fx import GraphModule\n"
        "from torchao.quantization.pt2e.observer import HistogramObserver\n"
        "import harness.pipeline.tester\n"
        "def test_it():\n"
        "    search = HistogramObserver._non_linear_param_search\n"
        "    assert not search.__module__.startswith('harness')\n"
        "    assert GraphModule.recompile.__module__ == 'harness.pipeline.speed.graph_code'\n"
    )
    asked = {"CONFORM_NO_SPEED": "calibration, untold, delegates.payloads"}
    result = run(project, "-n", "0", "-k", "add/a or test_it", env=asked)
    assert result.returncode == 0, result.stdout
    assert "2 passed" in result.stdout
    info = load(project / "run").info
    assert info.speed
    assert info.slow_parts == dict.fromkeys(
        ("calibration", "unread_text"), "CONFORM_NO_SPEED names it"
    )
    gone = "CONFORM_NO_SPEED: the part delegates.payloads is gone"
    assert result.stderr.count(gone) == 1
    wrong = run(project, "-n", "0", folder="wrong", env={"CONFORM_NO_SPEED": "calibrating"})
    assert wrong.returncode == 4
    assert "CONFORM_NO_SPEED: no part calibrating; there are graph_code, memoized, " in wrong.stderr


def test_a_seed_that_no_record_can_hold_is_refused(project: Path) -> None:
    result = run(project, "-n", "0", "--seed", str(2**63))
    assert result.returncode == 4
    assert "--seed of 64 bits does not fit" in result.stderr
    assert run(project, "-n", "0", "-k", "add/a", "--seed", str(-(2**63))).returncode == 0
