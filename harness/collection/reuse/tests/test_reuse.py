"""Sessions that take what others computed, complete what was stopped, leave out what did not
change."""

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from harness.collection.tests.sessions import OF_A_RUN, records, run
from harness.record.cell import Status
from harness.record.folder import CELLS_FILE, load
from harness.record.run import Run

SUITE = """
import os, signal
import torch
from harness.case import Case

class Add(torch.nn.Module):
    def forward(self, x):
        return x + x

class Fails(Add):
    def forward(self, x):
        raise ValueError("never right")

class Dies(Add):
    def forward(self, x):
        if os.environ.get("DIES_NOW"):
            os.kill(os.getpid(), signal.SIGKILL)
        return x + x

def case(name, module=Add):
    return Case(name, lambda: (module(), (torch.randn(2, 3),)), untelling="")

CASES = [case("add/a"), case("add/b"), case("dies", Dies), case("add/c")]
"""


@pytest.fixture
def project(project: Path) -> Path:
    """With a suite that may end its process."""
    (project / "suites" / "small.py").write_text(SUITE)
    return project


def session(project: Path, name: str, *arguments: str, code: int = 0) -> tuple[Run, str]:
    """A session with results beside the project."""
    results = ("--incremental", "--results", str(project / "results"))
    ran = run(project, *results, *arguments, folder=name)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return load(project / name), ran.stdout


def cached(found: Run) -> set[str]:
    return {cell.case for cell in found.cells if cell.cached is not None}


@pytest.mark.parametrize("workers", ["0", "1"])
def test_an_unchanged_run_runs_nothing(project: Path, workers: str) -> None:
    first, said = session(project, "first", "-n", workers)
    assert "0 cells were taken" in said
    assert "4 ran" in said
    assert not cached(first)
    second, said = session(project, "second", "-n", workers)
    assert "4 cells were taken" in said
    assert "bringing up nodes" not in said, "no worker has anything to do"
    assert cached(second) == {"add/a", "add/b", "dies", "add/c"}
    but = OF_A_RUN | {"cached"}
    assert records(first, but=but) == records(second, but=but)
    assert second.is_complete
    assert second.info.backends == first.info.backends
    sources = {cell.cached.run for cell in second.cells if cell.cached}
    assert sources == {"first"}


def test_results_of_one_process_serve_workers(project: Path) -> None:
    session(project, "first", "-n", "0", "-k", "add")
    second, said = session(project, "second", "-n", "1")
    assert cached(second) == {"add/a", "add/b", "add/c"}
    assert "1 ran" in said
    assert second.is_complete
    assert Counter(cell.id for cell in second.cells) == Counter(second.info.expected)


def test_what_changed_runs_again_and_what_failed_always_does(project: Path) -> None:
    suite = project / "suites" / "small.py"
    session(project, "first", "-n", "0")
    text = suite.read_text()
    suite.write_text(text.replace('case("add/c")]', 'case("add/c"), case("fails", Fails)]'))
    second, _ = session(project, "second", "-n", "0", code=1)
    assert not cached(second), "they stand in a file that changed"
    third, _ = session(project, "third", "-n", "0", code=1)
    assert cached(third) == {"add/a", "add/b", "dies", "add/c"}
    assert third.cell("fails@null:eager").status is Status.FAILED
    suite.write_text(text)
    fourth, said = session(project, "fourth", "-n", "0")
    assert len(cached(fourth)) == 4, said
    seeded, _ = session(project, "seeded", "-n", "0", "--seed", "1")
    assert not cached(seeded)


def test_a_result_that_was_damaged_runs_again(project: Path) -> None:
    session(project, "first", "-n", "0")
    entries = sorted((project / "results" / "cells").rglob("*.json"))
    entries[0].write_bytes(entries[0].read_bytes()[:-40])
    entries[1].write_text("{}")
    second, _ = session(project, "second", "-n", "0")
    assert len(cached(second)) == 2
    assert second.is_complete
    third, _ = session(project, "third", "-n", "0")
    assert len(cached(third)) == 4


def stopped(project: Path, *arguments: str) -> Run:
    """A run that was killed in its third cell."""
    ran = run(project, "-n", "0", *arguments, env={"DIES_NOW": "1"}, anew=True)
    assert ran.returncode == -9, ran.stdout + ran.stderr
    found = load(project / "run")
    assert not found.is_complete
    assert len(found.cells) == 2
    return found


def resumed(project: Path, folder: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A session that completes a run; a command as the one before, so that both find packages in
    the same places."""
    return run(project, "--resume", folder, *options, folder=None, anew=True)


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_run_that_was_killed_is_completed_in_its_folder(project: Path, workers: str) -> None:
    before = stopped(project)
    with (project / "run" / CELLS_FILE).open("ab") as file:
        file.write(b'{"case":"dies","targ')  # what was being written
    ran = resumed(project, "run", "-n", workers)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 cells had a record already, 2 ran" in ran.stdout
    found = load(project / "run")
    assert found.is_complete
    assert Counter(cell.id for cell in found.cells) == Counter(found.info.expected)
    assert found.cells[:2] == before.cells
    assert found.info.started == before.info.started
    assert len(found.info.resumed) == 1


def test_what_cannot_be_resumed_is_said(project: Path) -> None:
    def why(*arguments: str) -> str:
        ran = resumed(project, arguments[0], "-n", "0", *arguments[1:])
        assert ran.returncode == 4, ran.stdout + ran.stderr
        return " ".join((ran.stdout + ran.stderr).split())

    assert "there is no such folder" in why("nothing")
    stopped(project)
    shutil.copytree(project / "run", project / "other")
    assert "its seed is 0" in why("run", "--seed", "3")
    suite = project / "suites" / "small.py"
    text = suite.read_text()
    suite.write_text(text + "\n# changed\n")
    assert "sources of suites, backends and the harness are not what they were" in why("run")
    suite.write_text(text)
    assert resumed(project, "run", "-n", "0").returncode == 0
    assert "is complete already" in why("run")
    assert len(load(project / "other").cells) == 2, "nothing is written where nothing is resumed"


def test_the_command_completes_a_run_by_itself(project: Path) -> None:
    from click.testing import CliRunner

    from harness.cli.runs import _as_it_was

    stopped(project, "-k", "add or dies")
    given = _as_it_was(project / "run", {"-n": "1", "--cluster": None, "--keys": None})
    assert given[-2:] == ["--resume", str(project / "run")]
    assert "--run-dir" not in given
    assert given.count("-n") == 1
    assert given[given.index("-k") + 1] == "add or dies"
    from harness.cli import main

    misused = CliRunner().invoke(main, ["run", "--resume", str(project / "run"), "-k", "add"])
    assert misused.exit_code == 2
    assert "--resume selects what its run selected" in misused.output


def git(project: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *who, *arguments], cwd=project, check=True, capture_output=True)


def test_only_what_a_change_can_affect_is_selected(project: Path) -> None:
    suites = project / "suites"
    (suites / "shared.py").write_text("")
    other = (suites / "small.py").read_text().replace("add/", "sub/").replace('"dies"', '"not"')
    (suites / "other.py").write_text(f"from suites import shared\n{other}")
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "all")

    def selected(name: str, code: int = 0) -> set[str]:
        ran = run(project, "-n", "0", "--changed-since", "HEAD", folder=name)
        assert ran.returncode == code, ran.stdout + ran.stderr
        return {cell.case.partition("/")[0] for cell in load(project / name).cells}

    nothing = run(project, "-n", "0", "--changed-since", "HEAD", folder="nothing")
    assert nothing.returncode == 5
    assert not (project / "nothing").exists()
    (suites / "shared.py").write_text("changed = 1\n")
    assert selected("one") == {"sub", "not"}
    (project / "README.md").write_text("text")
    assert selected("still_one") == {"sub", "not"}
    (project / "conftest.py").write_text((project / "conftest.py").read_text() + "\n")
    assert selected("all") == {"add", "dies", "sub", "not"}
    wrong = run(project, "-n", "0", "--changed-since", "nonsense", folder="wrong")
    assert wrong.returncode == 4
    assert "git knows no revision 'nonsense'" in wrong.stdout + wrong.stderr
