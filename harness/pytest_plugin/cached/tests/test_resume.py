"""A stopped run is completed in its folder, with the same result as without the stop."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from harness.pytest_plugin.tests.sessions import (
    HANG,
    WORKERS,
    begun,
    ended,
    environment,
    outcomes,
    run,
    write_suite,
)
from harness.record.cell import Status
from harness.record.folder import CELLS_FILE, RUN_FILE, load
from harness.record.recorder import CLAIMS, LOGS, Recorder


def stop(project: Path, *, records: int, torn: bytes = b"") -> list[str]:
    """Make a complete run one that was killed after so many records, and maybe within the next.

    Returns:
        The lines that are left.
    """
    file, info = project / "run" / CELLS_FILE, project / "run" / RUN_FILE
    lines = file.read_text().splitlines(keepends=True)[:records]
    file.write_bytes("".join(lines).encode() + torn)
    said = json.loads(info.read_text())
    said |= {"ended": None, "exit_status": None, "records": None, "complete": False}
    info.write_text(json.dumps(said))
    return lines


@pytest.mark.nightly
def test_a_killed_run_is_completed_in_its_folder(project: Path) -> None:
    """Really killed, by the signal that none can catch, in the middle of a cell."""
    write_suite(project, "while not os.path.exists('go'): time.sleep(0.05)")
    cells = project / "run" / CELLS_FILE
    with begun(project, "-n", "1", after=2):
        pass
    before = cells.read_bytes()
    assert before.count(b"\n") < 5
    (project / "go").touch()
    result = run(project, "-n", "1", "--resume", "run", folder=None)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "5 passed" in result.stdout
    ran = 5 - before.count(b"\n")
    assert f"{5 - ran} cells had a record already, {ran} ran" in result.stdout
    assert cells.read_bytes().startswith(before)
    record = load(project / "run")
    assert record.is_complete, record.incompleteness
    assert len(record.cells) == len(outcomes(record)) == 5
    assert len(record.info.resumed_at) == 1


@pytest.mark.one_of(3)
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("torn", [b"", b'{"case": "add/c", "tar', b"\xff"])
def test_records_are_taken_as_they_are_and_a_torn_line_is_dropped(
    project: Path, workers: str, torn: bytes
) -> None:
    write_suite(project, "raise ValueError('red')")
    assert run(project, "-n", "1").returncode == 1
    lines = stop(project, records=3, torn=torn)
    result = run(project, "-n", workers, "--resume", "run", folder=None)
    assert result.returncode == 1, result.stdout
    content = (project / "run" / CELLS_FILE).read_text()
    assert content.startswith("".join(lines))
    record = load(project / "run")
    assert record.is_complete, record.incompleteness
    assert sorted(cell.id for cell in record.cells) == sorted(record.info.expected)
    assert outcomes(record)["death/now"] is Status.FAILED
    assert "1 failed, 4 passed" in result.stdout
    assert record.info.exit_status == 1


@pytest.mark.nightly
def test_all_that_is_left_may_be_the_end(project: Path) -> None:
    assert run(project, "-n", "1").returncode == 0
    stop(project, records=5)
    result = run(project, "-n", "1", "--resume", "run", folder=None)
    assert result.returncode == 0, result.stdout
    assert "5 cells had a record already, 0 ran" in result.stdout
    assert load(project / "run").is_complete


def test_what_cells_said_of_limitations_outlives_the_process(project: Path) -> None:
    """A stale entry is stale although the cells that say so ran before the run was killed."""
    (project / "suites" / "small.py").write_text(
        "import torch\nfrom harness.model.case import Case\n"
        "class Add(torch.nn.Module):\n    def forward(self, x):\n        return x + x\n"
        "def build():\n    return Add(), (torch.full((2, 3), float('nan')),)\n"
        "CASES = [Case(f'add/{name}', build, targets='tosa:int') for name in 'ab']\n"
    )
    (project / "suites" / "limitations.py").write_text(
        "from harness.model.limitation import Limitation\n"
        "LIMITATIONS = [Limitation(target='tosa:*', case='add/*', reason='old')]\n"
    )
    whole = run(project, "-n", "1", targets="tosa:int")
    assert "is stale: all 2 of its cells" in whole.stdout, whole.stdout
    assert len((project / "run" / LOGS / CLAIMS).read_text().splitlines()) == 2
    assert len(Recorder.read_claims(project / "run")) == 2
    stop(project, records=1)
    with (project / "run" / LOGS / CLAIMS).open("ab") as claims:
        claims.write(b'{"cell": "add/')
    result = run(project, "-n", "1", "--resume", "run", folder=None, targets="tosa:int")
    assert "is stale: all 2 of its cells" in result.stdout, result.stdout
    assert result.returncode == 1


@pytest.mark.nightly
def test_it_goes_on_taking_results_where_it_did(project: Path) -> None:
    reusing = ("--incremental", "--result-cache", "results")
    assert run(project, "-n", "1", *reusing, folder="before").returncode == 0
    assert run(project, "-n", "1").returncode == 0
    stop(project, records=2)
    result = run(project, "-n", "1", *reusing, "--resume", "run", folder=None)
    assert "2 cells had a record already, 3 cells were reused" in result.stdout, result.stdout
    assert sum(cell.cached is not None for cell in load(project / "run").cells) == 3


def refused(project: Path, *arguments: str) -> str:
    before = (project / "run" / CELLS_FILE).read_bytes()
    result = run(project, "-n", "0", "--resume", "run", *arguments, folder=None)
    assert result.returncode == 4, result.stdout
    assert "Traceback" not in result.stderr
    assert (project / "run" / CELLS_FILE).read_bytes() == before
    return " ".join(result.stderr.split())


@pytest.fixture
def stopped(project: Path) -> Path:
    assert run(project, "-n", "0").returncode == 0
    stop(project, records=2, torn=b"{")
    return project


@pytest.mark.nightly
def test_a_run_that_would_be_of_two_things_is_refused_by_what_differs(stopped: Path) -> None:
    info = stopped / "run" / RUN_FILE
    said = json.loads(info.read_text())

    def changed(where: str, value: object) -> None:
        other = json.loads(json.dumps(said))
        place = other["environment"]
        *path, last = where.split(".")
        for name in path:
            place = place[name]
        place[last] = value
        info.write_text(json.dumps(other))

    changed("packages.torch", "2.0.0")
    assert ", was 2.0.0" in refused(stopped)
    changed("packages.gone", "1")
    assert "gone is not installed, was 1" in refused(stopped)
    changed("python", "3.9.1")
    assert "Python is" in refused(stopped)
    changed("git_commit", "a" * 40)
    assert "the checkout is unknown, was aaaaaaaaaaaa" in refused(stopped)
    info.write_text(json.dumps(said))
    assert "its seed is 0" in refused(stopped, "--seed", "1")
    suite = stopped / "suites" / "small.py"
    suite.write_text(f"# changed\n{suite.read_text()}")
    assert "sources of suites, backends and the harness have changed" in refused(stopped)


def test_other_cells_than_it_had_are_refused(stopped: Path) -> None:
    result = run(stopped, "-n", "0", "--resume", "run", "-k", "add", folder=None)
    assert result.returncode == 4, result.stdout
    assert "it had 5 cells, and the current selection has 3" in result.stdout + result.stderr
    assert not load(stopped / "run", torn=False).damage


def test_what_is_complete_or_no_run_is_refused(project: Path) -> None:
    assert run(project, "-n", "0").returncode == 0
    assert "run is complete; there is nothing to resume" in refused(project)
    for folder in ("nowhere", "suites"):
        result = run(project, "-n", "0", "--resume", folder, folder=None)
        assert result.returncode == 4
        assert folder in result.stderr
    assert not (project / "nowhere").exists()


@pytest.mark.nightly
def test_a_run_that_is_still_being_written_is_refused(project: Path) -> None:
    write_suite(project, HANG)
    with begun(project, "-n", "1"):
        result = run(project, "-n", "0", "--resume", "run", folder=None)
    assert result.returncode == pytest.ExitCode.INTERNAL_ERROR
    assert "another process is still writing to run" in result.stdout + result.stderr


def conform(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return ended("harness.cli", ["run", *arguments], project, environment(shared=True))


@pytest.mark.nightly
def test_the_command_takes_all_else_from_the_run(project: Path) -> None:
    arguments = ("-n", "1", "--targets", "null:eager", "--run-dir", "run", "--seed", "3", "-k")
    assert conform(project, *arguments, "add or sub").returncode == 0
    stop(project, records=1)
    result = conform(project, "--resume", "run", "-n", "2")
    assert result.returncode == 0, result.stdout + result.stderr
    record = load(project / "run")
    assert record.is_complete
    assert {cell.seed for cell in record.cells} == {3}
    assert sorted(outcomes(record)) == ["add/a", "add/b", "add/c", "sub/d"]
    assert result.stdout.splitlines()[-1] == str(project / "run" / "report.html")
    complete = conform(project, "--resume", "run")
    assert complete.returncode == 2
    assert "run is complete; there is nothing to resume" in complete.stderr
    for option in (("--seed", "4"), ("--lower-only",), ("--keep", "red"), ("suites",)):
        other = conform(project, "--resume", "run", *option)
        assert other.returncode == 2, other.stdout
        assert "--resume repeats the selection of its run" in other.stderr
    assert conform(project, "--resume", "nowhere").returncode == 2
