"""The plugin in real pytest processes, with real deaths of workers."""

from __future__ import annotations

import json
import re
import resource
import subprocess
from pathlib import Path

import pytest

from harness.pytest_plugin.tests.sessions import (
    HANG,
    SEGFAULT,
    WORKERS,
    begun,
    command,
    environment,
    outcomes,
    run,
    write_suite,
)
from harness.record.cell import Status
from harness.record.folder import RUN_FILE, load


@pytest.mark.parametrize("workers", [pytest.param("0", marks=pytest.mark.nightly), "2"])
def test_a_green_run_is_complete(project: Path, workers: str) -> None:
    result = run(project, "-n", workers)
    assert result.returncode == 0, result.stdout
    record = load(project / "run")
    assert record.is_complete
    assert record.info.exit_status == 0
    assert len(record.info.expected) == 5
    assert set(outcomes(record).values()) == {Status.PASSED}
    assert all(cell.suite == "suites.small" for cell in record.cells)


def test_keywords_select_by_case_and_target(project: Path) -> None:
    result = run(project, "-n", "0", "-k", "add and null")
    assert result.returncode == 0, result.stdout
    assert sorted(outcomes(load(project / "run"))) == ["add/a", "add/b", "add/c"]


@pytest.mark.parametrize(
    ("options", "recipes"),
    [
        (("-m", "not nightly"), {"fp32"}),
        (("-m", "nightly or not nightly"), {"fp32", "bf16"}),
        pytest.param(
            ("-m", "not nightly", "--targets", "mlx:bf16"), {"bf16"}, marks=pytest.mark.nightly
        ),
    ],
)
def test_recipes_of_the_night_wait_for_it_unless_named(
    project: Path, options: tuple[str, ...], recipes: set[str]
) -> None:
    listing = ("-n", "0", "--collect-only", "-q", "-k", "add/a and mlx")
    result = run(project, *listing, *options, targets=None)
    found = re.findall(r"add/a@mlx:(\w+)", result.stdout)
    assert sorted(found) == sorted(recipes), result.stdout


def test_cells_of_the_night_are_not_even_made_by_day(project: Path) -> None:
    result = run(project, "-n", "0", "--collect-only", "-q", "-m", "not nightly", targets=None)
    assert "deselected" not in result.stdout
    night = run(project, "-n", "0", "--collect-only", "-q", "-m", "nightly", targets=None)
    assert "add/a@mlx:bf16" in night.stdout


def test_a_target_may_require_delegation(project: Path) -> None:
    result = run(project, "-n", "0", "-k", "add/a", "--require-delegation", "null:eager")
    assert result.returncode == 1
    cell = load(project / "run").cell("add/a@null:eager")
    assert cell.status is Status.FAILED
    assert "nothing was delegated" in str(cell.error)


@pytest.mark.parametrize(
    ("death", "options", "status", "mark"),
    [
        (SEGFAULT, (), Status.CRASHED, "Segmentation fault"),
        pytest.param(
            HANG, ("--cell-timeout", "20"), Status.TIMEOUT, "Timeout", marks=pytest.mark.nightly
        ),
        pytest.param(
            "os._exit(3)", (), Status.CRASHED, "died without a stack", marks=pytest.mark.nightly
        ),
    ],
)
def test_a_dead_worker_becomes_a_row_and_the_rest_goes_on(
    project: Path, death: str, options: tuple[str, ...], status: Status, mark: str
) -> None:
    write_suite(project, death)
    result = run(project, "-n", "1", *options)
    assert result.returncode == 1, result.stdout
    record = load(project / "run")
    assert record.is_complete, record.incompleteness
    assert outcomes(record) == {
        "add/a": Status.PASSED,
        "add/b": Status.PASSED,
        "death/now": status,
        "add/c": Status.PASSED,
        "sub/d": Status.PASSED,
    }
    dead = record.cell("death/now@null:eager")
    assert mark in str(dead.error)
    assert dead.stage == "build"
    assert "conform repro death/now@null:eager" in result.stdout


@pytest.mark.nightly
def test_workers_write_to_a_folder_that_the_session_named(project: Path) -> None:
    write_suite(project, SEGFAULT)
    assert run(project, "-n", "2", folder=None).returncode == 1
    (only,) = (project / "runs").iterdir()
    assert "Segmentation fault" in str(load(only).cell("death/now@null:eager").error)


@pytest.mark.nightly
def test_what_took_longest_is_started_first_the_next_time(project: Path) -> None:
    write_suite(project, "time.sleep(0.2)")
    assert run(project, "-n", "1").returncode == 0
    again = run(project, "-n", "1", "-v", folder="again")
    assert re.findall(r"PASSED \S+::(\S+)@", again.stdout)[0] == "death/now", again.stdout


def test_who_replaces_a_dead_worker_collects_the_same_wherever_the_record_is(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write_suite(project, SEGFAULT)
    # Far from the project: by the time of the second worker it is a folder that pytest sees.
    record = tmp_path_factory.mktemp("elsewhere") / "run"
    result = run(project, "-n", "1", paths=(), folder=str(record))
    assert "replacing crashed worker" in result.stdout
    assert load(record).is_complete, result.stdout
    assert len(outcomes(load(record))) == 5
    assert "rootdir" not in str(load(record).info.command)


def test_who_replaces_a_dead_worker_and_knows_other_tests_ends_the_session(project: Path) -> None:
    write_suite(project, SEGFAULT)
    suite = project / "suites" / "small.py"
    fewer = 'if os.environ.get("PYTEST_XDIST_WORKER") == "gw1":\n    CASES = CASES[1:]\n'
    suite.write_text(suite.read_text() + fewer)
    result = run(project, "-n", "1")
    assert result.returncode == pytest.ExitCode.INTERNAL_ERROR, result.stdout
    assert "worker gw1, which replaces a dead one, collected 4 tests" in result.stdout
    record = load(project / "run")
    assert not record.is_complete
    assert record.missing == ["add/c@null:eager", "sub/d@null:eager"]


# Each dies once both are at it; the second one's successor is still collecting as the first's is
# given work.
TOGETHER = """
if os.environ.get("PYTEST_XDIST_WORKER") == "gw3":
    time.sleep(2)

class Together(Add):
    def forward(self, x):
        if worker := os.environ.get("PYTEST_XDIST_WORKER"):
            open(f"died-{worker}", "w").close()
            while not (os.path.exists("died-gw0") and os.path.exists("died-gw1")):
                time.sleep(0.01)
            if worker in ("gw0", "gw1"):
                ctypes.string_at(0)
        return x + x

CASES = [case("one/dies", Together), case("other/dies", Together), *CASES]
"""


@pytest.mark.nightly
def test_two_workers_that_die_at_a_time_are_two_rows(project: Path) -> None:
    suite = project / "suites" / "small.py"
    suite.write_text(suite.read_text() + TOGETHER)
    result = run(project, "-n", "2")
    assert result.returncode == 1, result.stdout
    record = load(project / "run")
    assert record.is_complete, record.incompleteness
    found = outcomes(record)
    assert len(found) == 7
    assert {case for case, status in found.items() if status is Status.CRASHED} == {
        "one/dies",
        "other/dies",
    }


def test_workers_that_die_before_any_cell_end_the_session(project: Path) -> None:
    (project / "conftest.py").write_text(
        'pytest_plugins = ["harness.pytest_plugin"]\n'
        "def pytest_collection(session):\n"
        "    if hasattr(session.config, 'workerinput'):\n"
        "        __import__('os')._exit(1)\n"
    )
    result = run(project, "-n", "1")
    assert result.returncode == 3, result.stdout
    assert "worker gw0 died while it collected" in result.stdout


@pytest.mark.nightly
def test_a_predicted_crash_is_xfailed(project: Path) -> None:
    write_suite(project, SEGFAULT)
    (project / "suites" / "limitations.py").write_text(
        "from harness.record.cell import Status\n"
        "from harness.model.limitation import Limitation\n"
        "LIMITATIONS = [Limitation(target='null:*', case='death/*', reason='reads address 0',\n"
        "                          outcome=Status.CRASHED)]\n"
    )
    result = run(project, "-n", "1")
    assert result.returncode == 0, result.stdout
    cell = load(project / "run").cell("death/now@null:eager")
    assert cell.status is Status.XFAILED
    assert cell.tags == ["fp32"]
    assert cell.limitation is not None


@pytest.mark.nightly
def test_a_killed_run_is_readable_and_incomplete(project: Path) -> None:
    write_suite(project, HANG)
    with begun(project, "-n", "1", after=2):
        pass
    record = load(project / "run")
    assert not record.is_complete
    assert "death/now@null:eager" in record.missing
    assert record.info.exit_status is None
    assert any("did not end by itself" in line for line in record.incompleteness)


def test_selecting_nothing_is_red(project: Path) -> None:
    assert run(project, "-n", "0", "-k", "no_such_case").returncode == 5
    assert run(project, "-n", "1", "-k", "no_such_case").returncode == 5


@pytest.mark.parametrize("workers", WORKERS)
def test_an_expected_backend_that_did_not_load_is_red(project: Path, workers: str) -> None:
    (project / "broken.py").write_text("raise ImportError('no libbroken.so')\n")
    (project / "conftest.py").write_text(
        "from harness import registry\n"
        'registry.BUILT_IN["broken"] = registry.BuiltIn("broken:BACKEND", ("fp32",))\n'
        'pytest_plugins = ["harness.pytest_plugin"]\n'
    )
    result = run(project, "-n", workers, "--targets", "null:eager,broken:fp32")
    assert result.returncode == 1, result.stdout
    assert "backend broken was expected and is not available" in result.stdout
    record = load(project / "run")
    assert record.counts == {Status.PASSED: 5, Status.UNAVAILABLE: 5}
    assert "no libbroken.so" in record.info.backends["broken"].reason


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--targets", "nul:eager"), "did you mean 'null'"),
        (("--targets", "null:eagre"), "did you mean 'eager'"),
        (("--targets", "null/eager"), "backend:recipe"),
        (("--no-such-option",), "unrecognized arguments"),
        (("--cell-memory", "0"), "--cell-memory: '0' is not a number of GiB above 0, such as 3"),
        (("--cell-memory", "3G"), "'3G' is not a number of GiB"),
        (("--cell-timeout", "nan"), "'nan' is not a number of seconds above 0, such as 300"),
    ],
)
def test_a_wrong_option_is_one_line_and_red(
    project: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = run(project, "-n", "0", *arguments)
    assert result.returncode == 4
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (project / "run" / RUN_FILE).exists()


@pytest.mark.parametrize("workers", WORKERS)
def test_a_run_folder_that_cannot_be_written_is_red(project: Path, workers: str) -> None:
    (project / "run").write_text("a file")
    result = run(project, "-n", workers)
    assert result.returncode != 0
    assert "cannot write the run folder" in result.stdout + result.stderr
    assert "Traceback" not in result.stdout + result.stderr
    assert (project / "run").read_text() == "a file"


@pytest.mark.nightly
@pytest.mark.parametrize("workers", WORKERS)
def test_a_full_disk_ends_the_run_and_keeps_its_records(project: Path, workers: str) -> None:
    # Bytes a file may have: some records, and less than lowering writes for its own purposes, so
    # that these cells fail; the run must end all the same.
    limit = 7000
    result = subprocess.run(
        command("-n", workers), cwd=project, env=environment(), capture_output=True, text=True,
        timeout=280, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    assert result.returncode == 3, result.stdout
    assert "cannot append to" in result.stdout
    assert "Traceback" not in result.stdout + result.stderr
    record = load(project / "run")
    assert 1 <= len(record.cells) < 5
    assert not record.is_complete


def test_a_limitation_that_matches_nothing_is_red(project: Path) -> None:
    (project / "suites" / "limitations.py").write_text(
        "from harness.model.limitation import Limitation\n"
        "LIMITATIONS = [Limitation(target='null:*', case='gone/*', reason='was mended')]\n"
    )
    result = run(project, "-n", "0")
    assert result.returncode != 0
    assert "match no cell" in result.stdout
    assert "gone/*" in result.stdout


def test_two_cases_of_one_name_are_refused(project: Path) -> None:
    other = "from suites.small import case\nCASES = [case('add/a')]\n"
    (project / "suites" / "other.py").write_text(other)
    result = run(project, "-n", "0")
    assert result.returncode == 4
    assert "add/a@null:eager" in result.stderr


@pytest.mark.nightly
def test_workers_and_order_do_not_change_a_number(project: Path) -> None:
    assert run(project, "-n", "0").returncode == 0
    assert run(project, "-n", "2", "--run-dir", "again").returncode == 0
    numbers = [
        {cell.id: json.loads(cell.to_json())["numerics"] for cell in load(project / name).cells}
        for name in ("run", "again")
    ]
    assert numbers[0] == numbers[1]
