"""Runs that end abnormally: killed workers, full disks, links at the paths of reports."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.pytest_plugin.tests.sessions import ROOT, WORKERS, run
from harness.pytest_plugin.workers.scheduler import CaseScheduler
from harness.record.cell import Status
from harness.record.folder import CELLS_FILE, RUN_FILE, load, write_atomically
from reports.render import folder as reports_folder

KILLED = """
if os.environ.get("PYTEST_XDIST_WORKER") == "gw0":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.nightly), "2"])
def test_a_worker_killed_while_it_collects_leaves_an_incomplete_run(
    project: Path, workers: str
) -> None:
    suite = project / "suites" / "small.py"
    suite.write_text(suite.read_text() + KILLED)
    result = run(project, "-n", workers, reports=True)
    assert result.returncode == 3, result.stdout
    assert "worker gw0 died while it collected" in result.stdout
    assert "Traceback" not in result.stdout + result.stderr
    assert json.loads((project / "run" / RUN_FILE).read_text())["complete"] is False
    record = load(project / "run")
    assert not record.is_complete
    assert record.info.exit_status == 3
    assert any("died while it collected" in line for line in record.info.problems)
    assert "INCOMPLETE" in (project / "run" / "report.md").read_text()


def test_a_dead_worker_of_other_tests_makes_no_run(project: Path) -> None:
    other = project / "others"
    other.mkdir()
    (other / "test_other.py").write_text(f"import os, signal{KILLED}\ndef test_a():\n    pass\n")
    result = run(project, "-n", "1", "others/test_other.py", paths=())
    assert result.returncode == 0, result.stdout
    assert not (project / "run").exists()


def test_a_run_that_was_stopped_is_not_complete(project: Path) -> None:
    (project / "conftest.py").write_text(
        "import pytest\n"
        'pytest_plugins = ["harness.pytest_plugin"]\n'
        "def pytest_runtest_teardown(item):\n"
        "    if 'add/b' in item.name:\n"
        "        raise KeyboardInterrupt\n"
    )
    assert run(project, "-n", "0").returncode == 2
    record = load(project / "run")
    assert len(record.cells) == 2
    assert record.info.complete is False
    assert record.info.exit_status == 2
    assert any("did not end by itself" in line for line in record.incompleteness)


def test_another_session_does_not_render_a_run_that_is_there(project: Path) -> None:
    assert run(project, "-n", "0", "-k", "add/a", reports=True).returncode == 0
    page = project / "run" / "report.html"
    page.write_text("mine")
    assert run(project, "-n", "0", "-k", "add/b", reports=True).returncode == 4
    assert page.read_text() == "mine"


@pytest.fixture
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Path]]:
    """Mounts a disk of so many kB; needs the right to mount."""
    mounted: list[Path] = []

    def mount(size: int) -> Path:
        place = tmp_path_factory.mktemp("disk")
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(place)]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("mounting a small disk needs root on Linux")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True)


def fill(disk: Path, left: int) -> None:
    """Leave so many bytes on the disk, in whole pages of memory."""
    free = shutil.disk_usage(disk).free
    (disk / "filler").write_bytes(bytes(free - left))


@pytest.mark.parametrize("workers", WORKERS)
def test_a_disk_that_fills_up_ends_the_run_with_one_line(
    project: Path, disk: Callable[[int], Path], workers: str
) -> None:
    place = disk(256)
    # A page of memory for run.json, and one for the first records.
    fill(place, 2 * 4096)
    result = run(project, "-n", workers, "--run-dir", str(place / "run"), reports=True)
    said = result.stdout + result.stderr
    assert result.returncode == 3, said
    assert "Traceback" not in said
    assert "INTERNALERROR" not in said
    assert said.count("No space left on device") >= 1
    assert "no report: " in said
    assert not (place / "run" / "report.html").exists()
    assert not list(place.glob("run/.*"))
    record = load(place / "run")
    assert not record.is_complete
    assert len(record.cells) < 5


def test_a_disk_without_room_for_the_page_has_no_half_of_it(
    project: Path, disk: Callable[[int], Path]
) -> None:
    place = disk(256)
    fill(place, 12 * 4096)
    result = run(project, "-n", "0", "--run-dir", str(place / "run"), reports=True)
    said = result.stdout + result.stderr
    assert "5 passed" in said
    assert "no report: cannot write the report" in said
    assert "report: /" not in said
    assert "Traceback" not in said
    assert result.returncode == 3, said
    assert load(place / "run").is_complete
    names = {path.name for path in (place / "run").iterdir()}
    assert names <= {RUN_FILE, CELLS_FILE, "claims", "logs", "report.md"}, names


def test_reports_replace_links_and_follow_none(project: Path) -> None:
    assert run(project, "-n", "0", "-k", "add/a", reports=True).returncode == 0
    folder = project / "run"
    victims = {}
    for name in ("report.md", "report.html", RUN_FILE):
        victims[name] = project / f"victim-{name}"
        content = (folder / name).read_bytes()
        victims[name].write_bytes(content if name == RUN_FILE else b"mine")
        (folder / name).unlink()
        (folder / name).symlink_to(victims[name])
    page = reports_folder.write(load(folder))
    assert page == folder / "report.html"
    for name in ("report.md", "report.html"):
        assert not (folder / name).is_symlink()
        assert victims[name].read_bytes() == b"mine"


def test_a_link_in_place_of_the_draft_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f".page.{os.getpid()}").symlink_to(victim)
    write_atomically(tmp_path / "page", b"new")
    assert (tmp_path / "page").read_bytes() == b"new"
    assert not (tmp_path / "page").is_symlink()
    assert victim.read_text() == "mine"


DIES = """
import ctypes, os
from backends.null import Null

class Dies(Null):
    name = "dies"

    def execute(self, program, calls):
        if os.environ.get("PYTEST_XDIST_WORKER"):
            ctypes.string_at(0)
        return super().execute(program, calls)

BACKEND = Dies()
"""


def test_what_a_dead_worker_ran_is_kept(project: Path) -> None:
    site = project / "site"
    info = site / "dies-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "dies.py").write_text(DIES)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dies\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[conform.backends]\ndies = dies:BACKEND\n")
    env = {"PYTHONPATH": f"{ROOT}:{site}"}
    result = run(
        project, "-n", "1", "-k", "add/a", "--keep", "red", targets="dies,null:eager", env=env
    )
    assert result.returncode == 1, result.stdout
    record = load(project / "run")
    assert {cell.id: cell.status for cell in record.cells} == {
        "add/a@dies:eager": Status.CRASHED,
        "add/a@null:eager": Status.PASSED,
    }
    kept = record.cell("add/a@dies:eager").saved_to
    assert record.cell("add/a@null:eager").saved_to == ""
    assert [path.name for path in (project / "run" / "kept").iterdir()] == [Path(kept).name]
    files = {path.name for path in (project / "run" / kept).iterdir()}
    assert files == {"about.json", "inputs.0.safetensors", "program.pte"}


class Node:
    """A worker as the scheduler sees it; a dead one cannot be written to."""

    shutting_down = False

    def __init__(self, *, dead: bool = False) -> None:
        self.dead = dead
        self.given: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        if self.dead:
            raise OSError("cannot send (already closed?)")
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_a_worker_that_is_dead_before_it_is_told_gets_nothing_and_loses_nothing() -> None:
    tests = [f"suites/small.py::{name}@null:eager" for name in ("a", "b", "c", "d", "e")]
    scheduler = object.__new__(CaseScheduler)
    scheduler._ordered, scheduler._unreachable, scheduler.log = True, set(), lambda *_: None
    first, second = Node(), Node()
    scheduler.registered_collections = dict.fromkeys((first, second), tests)
    units = {test: {test: False} for test in tests}
    # Both run a test; two die at a time, and the end of the first is told first.
    scheduler.assigned_work = {
        first: {tests[0]: units[tests[0]], tests[1]: units[tests[1]]},
        second: {tests[2]: units[tests[2]]},
    }
    scheduler.workqueue = OrderedDict((test, units[test]) for test in tests[3:])
    second.dead = True
    assert scheduler.remove_node(first) == tests[0]
    assert not second.given
    assert list(scheduler.workqueue) == [tests[1], tests[3], tests[4]]
    assert scheduler.remove_node(second) == tests[2]
    assert list(scheduler.workqueue) == [tests[1], tests[3], tests[4]]
