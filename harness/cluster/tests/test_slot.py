"""A slot reports cells that end its process, and starts another process."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from harness.cluster import slot_process
from harness.cluster.messages import CellDied, WorkUnit
from harness.cluster.slot import SlotPool
from harness.cluster.tests.farms import environment, runners_of, write_suite
from harness.record.cell import Cell, Status
from harness.session.run_one import CellRequest
from harness.workers import fork_server
from harness.workers.protocol import CellEnded, CellStarted

ASKED = CellRequest(cell_timeout=60, selected=["null:eager"])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    write_suite(folder, plain=2, slow=1, seconds=2, ends=1)
    return folder


@pytest.fixture(scope="module")
def crew(root: Path) -> Iterator[SlotPool]:
    with SlotPool(root, 1) as made:
        yield made


def unit(root: Path, case: str, asked: CellRequest = ASKED, **changes: str) -> WorkUnit:
    file = "suites/small.py"
    digest = hashlib.sha256((root / file).read_bytes()).hexdigest()
    given = {"file": file, "digest": digest, **changes}
    return WorkUnit(
        key="k", topic="t", case=case, cells=[f"{case}@null:eager"], asked=asked, **given
    )


def test_a_cell_has_its_record(crew: SlotPool, root: Path) -> None:
    told: list[CellStarted | CellEnded | CellDied] = []
    outcome = crew.run(unit(root, "plain/0"), told.append)
    assert outcome.ended == ["plain/0@null:eager"]
    assert isinstance(told[0], CellStarted)
    assert isinstance(told[1], CellEnded)
    cell = Cell.from_json(told[1].record)
    assert (cell.status, cell.runtime, cell.suite) == (Status.PASSED, "emulated", "suites.small")


@pytest.mark.nightly
def test_where_nothing_is_forked_a_command_starts_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_server, "is_supported", lambda: False)
    with SlotPool(root, 1) as crew:
        assert crew.run(unit(root, "plain/0"), lambda event: None).ended
        assert slot_process.__name__ in {part for one in runners_of(root) for part in one.cmdline()}


@pytest.mark.nightly
def test_a_crash_has_its_stack_and_the_next_cell_runs(crew: SlotPool, root: Path) -> None:
    told: list[CellStarted | CellEnded | CellDied] = []
    assert crew.run(unit(root, "ends"), told.append).died == "ends@null:eager"
    death = told[-1]
    assert isinstance(death, CellDied)
    assert not death.final
    cell = Cell.from_json(death.record)
    assert cell.status is Status.CRASHED
    assert "Segmentation fault" in (cell.error or "")
    assert "small.py" in (cell.traceback or "")
    assert crew.run(unit(root, "plain/1"), told.append).ended == ["plain/1@null:eager"]


@pytest.mark.nightly
def test_a_cell_that_takes_too_long_is_ended_for_good(crew: SlotPool, root: Path) -> None:
    told: list[CellStarted | CellEnded | CellDied] = []
    short = CellRequest(cell_timeout=1, selected=["null:eager"])
    assert crew.run(unit(root, "slow/0", short), told.append).died
    death = told[-1]
    assert isinstance(death, CellDied)
    assert death.final
    assert Cell.from_json(death.record).status is Status.TIMEOUT


@pytest.mark.nightly
def test_work_that_is_not_of_this_checkout_is_refused(crew: SlotPool, root: Path) -> None:
    def why(case: str = "plain/0", **changes: str) -> str:
        outcome = crew.run(unit(root, case, **changes), lambda event: None)
        assert not outcome.ended
        return outcome.refused

    assert "differs from the file" in why(digest="0" * 64)
    assert "is not a suite of this checkout" in why(file="../elsewhere.py")
    assert "is not a suite of this checkout" in why(file="/etc/passwd")
    assert "has no case" in why("nothing")


WORKER = """
import sys, threading, time
from pathlib import Path
import msgspec
from harness.cluster.messages import WorkUnit
from harness.cluster.slot import SlotPool

crew = SlotPool(Path(sys.argv[1]), 1)
crew.describe_worker()
unit = msgspec.json.decode(sys.argv[2], type=WorkUnit)
crew.run(unit, lambda event: print(crew.folder, flush=True))
"""


@pytest.mark.nightly
def test_processes_end_with_their_worker(root: Path) -> None:
    """Killed, a worker closes nothing; and a process in the middle of a cell reads nothing. What it
    left is removed by the next one."""
    work = msgspec.json.encode(unit(root, "slow/0")).decode()
    command = [sys.executable, "-c", WORKER, str(root), work]
    before = {each.pid for each in runners_of(root)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as worker:
        assert worker.stdout is not None
        folder = Path(worker.stdout.readline().strip())
        (runner,) = (each for each in runners_of(root) if each.pid not in before)
        worker.kill()
    psutil.wait_procs([runner], timeout=10)
    assert not runner.is_running() or runner.status() == psutil.STATUS_ZOMBIE
    assert list(folder.iterdir())
    with SlotPool(root, 1) as crew:
        assert not folder.exists()
        assert crew.folder.parent == folder.parent
    assert not crew.folder.exists()
