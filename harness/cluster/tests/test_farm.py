"""Runs on a real cluster of this machine, also when parts of the cluster die."""

import contextlib
import random
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from harness.cluster.tests.farms import (
    by_command,
    conform,
    local_farm,
    run,
    runners_of,
    workers_of,
    write_suite,
)
from harness.cluster.tls import make_keys
from harness.pytest_plugin.tests.sessions import OF_A_RUN, records
from harness.record.cell import Status
from harness.record.folder import load
from harness.record.run import Run

# Fields that differ between two runs of a cell on one machine.
_OF_A_RUN = OF_A_RUN | {"first_seconds", "steady_seconds"}


def each_once(run: Run) -> bool:
    return Counter(cell.id for cell in run.cells) == Counter(run.info.expected)


def said(ran: subprocess.CompletedProcess[str]) -> str:
    return ran.stdout + ran.stderr


@pytest.mark.nightly
def test_records_are_those_of_a_local_run(tmp_path: Path) -> None:
    write_suite(tmp_path, plain=6, slow=1, seconds=0.01)
    asked = ("--targets", "null:eager", "--run-dir")
    here = by_command(tmp_path, *asked, "here", "-n", "1", "suites")
    assert here.returncode == 0, said(here)
    with local_farm(tmp_path, 2) as (address, _):
        there = by_command(tmp_path, *asked, "there", "--cluster", address, "suites")
    assert there.returncode == 0, said(there)
    assert "workers: 2, slots: 2" in there.stdout
    first, second = load(tmp_path / "here"), load(tmp_path / "there")
    assert second.is_complete
    assert each_once(second)
    assert records(first, but=_OF_A_RUN) == records(second, but=_OF_A_RUN)
    assert set(second.info.hosts) == {f"local{number}" for number in range(2)}
    assert {cell.worker for cell in second.cells} <= set(second.info.hosts)
    assert second.info.backends == first.info.backends


@pytest.mark.nightly
def test_a_cell_that_kills_is_tried_twice(tmp_path: Path) -> None:
    write_suite(tmp_path, plain=3, ends=1, once=1)
    with local_farm(tmp_path, 2) as (address, _):
        ran = run(tmp_path, "run", "--cluster", address)
    assert ran.returncode == 1, said(ran)
    found = load(tmp_path / "run")
    assert found.is_complete
    assert each_once(found)
    status = {cell.case: cell for cell in found.cells}
    assert status["ends"].status is Status.CRASHED
    assert len(status["ends"].attempts) == 2
    assert len({text.partition(":")[0] for text in status["ends"].attempts}) == 2, "on two workers"
    assert status["once"].status is Status.PASSED
    assert len(status["once"].attempts) == 1
    assert found.counts[Status.PASSED] == 4


def wait_for_records(root: Path) -> None:
    """Until a run has some; not for ever, as it may have ended badly."""
    records, end = root / "run" / "cells.jsonl", time.monotonic() + 120
    while time.monotonic() < end and not (records.exists() and records.stat().st_size):
        time.sleep(0.1)


def kill_now_and_then(
    pid: int, root: Path, kills: int, seed: int, done: threading.Event
) -> list[str]:
    """Kill workers and their processes at random while a run writes records."""
    draw = random.Random(seed)
    killed: list[str] = []
    wait_for_records(root)
    while len(killed) < kills and not done.is_set():
        time.sleep(draw.uniform(0.3, 2.5))
        alive = runners_of(root) + (workers_of(pid) if draw.random() < 0.5 else [])
        if alive:
            victim = draw.choice(alive)
            try:
                killed.append(victim.name())
                victim.kill()
            except psutil.Error:
                continue
    return killed


def killed_run(root: Path, cells: int, kills: int, workers: int) -> tuple[Run, int, list[str]]:
    write_suite(root, plain=0, slow=cells, seconds=0.04)
    killed: list[str] = []
    done = threading.Event()
    with local_farm(root, workers) as (address, pid):
        killer = threading.Thread(
            target=lambda: killed.extend(kill_now_and_then(pid, root, kills, seed=7, done=done))
        )
        killer.start()
        ran = run(root, "run", "--cluster", address)
        done.set()
        killer.join()
    print(said(ran))
    return load(root / "run"), ran.returncode, killed


def holds(found: Run, status: int, cells: int) -> None:
    """No cell is lost or recorded twice; only cells killed twice are red."""
    assert found.is_complete
    assert each_once(found)
    assert len(found.cells) == cells
    red = [cell for cell in found.cells if cell.status.is_red]
    assert all(len(cell.attempts) >= 2 for cell in red)
    assert all(cell.status is Status.PASSED for cell in found.cells if cell not in red)
    assert status == (1 if red else 0)


@pytest.mark.nightly
def test_killed_workers_lose_no_cell(tmp_path: Path) -> None:
    found, status, killed = killed_run(tmp_path, cells=24, kills=2, workers=2)
    assert killed
    holds(found, status, 24)


@pytest.mark.nightly
def test_twenty_kills_in_a_run_of_500_cells(tmp_path: Path) -> None:
    found, status, killed = killed_run(tmp_path, cells=500, kills=20, workers=4)
    assert len(killed) == 20
    holds(found, status, 500)


@pytest.mark.nightly
def test_a_disconnected_worker_is_lost_and_its_late_events_are_ignored(
    tmp_path: Path,
) -> None:
    """A stopped process neither answers nor closes connections, as behind a failed network."""
    write_suite(tmp_path, plain=0, slow=120, seconds=0.2)
    with local_farm(tmp_path, 2) as (address, pid):

        def cut() -> None:
            wait_for_records(tmp_path)
            victim = workers_of(pid)[0]
            victim.suspend()
            time.sleep(75)  # a scheduler looks every half minute for the silent
            with contextlib.suppress(psutil.NoSuchProcess):  # its nanny has another by now
                victim.resume()

        threading.Thread(target=cut).start()
        ran = run(tmp_path, "run", "--cluster", address)
    assert ran.returncode == 0, said(ran)
    found = load(tmp_path / "run")
    holds(found, 0, 120)
    assert sum(bool(cell.attempts) for cell in found.cells) == 1


# A folder of its own that holds 100 MiB, where a process may have one.
_SMALL_DISK = (
    "unshare", "-rm", "sh", "-c",
    'mount -t tmpfs -o size=100m none "$TMPDIR" && exec "$0" "$@"',
)  # fmt: skip


@pytest.mark.nightly
def test_a_worker_with_a_full_disk_fails_no_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    monkeypatch.setenv("TMPDIR", str(small))
    monkeypatch.setenv("XDG_CACHE_HOME", str(small))  # where a worker writes
    if subprocess.run([*_SMALL_DISK, "true"], check=False).returncode:
        pytest.skip("this user may not mount anything")
    write_suite(tmp_path, plain=0, slow=30, seconds=0.2)
    up = ("cluster", "up", "--address", "127.0.0.1:0")
    with conform(tmp_path, *up) as scheduler:
        assert scheduler.stdout is not None
        address = scheduler.stdout.readline().rpartition(" ")[2].strip()
        full = ("cluster", "worker", address, "-n", "1", "--name", "full")
        with conform(tmp_path, *full, inside=_SMALL_DISK) as worker:
            monkeypatch.delenv("TMPDIR")
            monkeypatch.delenv("XDG_CACHE_HOME")
            assert worker.stdout is not None
            assert "serves" in worker.stdout.readline()
            filled = Path(f"/proc/{workers_of(worker.pid)[0].pid}/root{small}/filling")
            filled.write_bytes(bytes(60 << 20))
            with conform(
                tmp_path, "cluster", "worker", address, "-n", "1", "--name", "fine"
            ) as other:
                assert other.stdout is not None
                assert "serves" in other.stdout.readline()
                ran = run(tmp_path, "run", "--cluster", address)
    assert ran.returncode == 0, said(ran)
    assert "full does not run" in ran.stdout
    found = load(tmp_path / "run")
    holds(found, 0, 30)
    assert {cell.worker for cell in found.cells} == {"fine"}


@pytest.mark.nightly
def test_a_run_is_readable_after_its_scheduler_ends(tmp_path: Path) -> None:
    # Each is run a dozen times: eager, for its reference, and for the noise of that.
    write_suite(tmp_path, plain=0, slow=20, seconds=0.02)
    with local_farm(tmp_path, 1) as (address, pid):

        def kill() -> None:
            wait_for_records(tmp_path)
            psutil.Process(pid).kill()

        threading.Thread(target=kill).start()
        ran = run(tmp_path, "run", "--cluster", address)
    assert ran.returncode not in (0, 1, 5)
    assert "is gone" in said(ran)
    found = load(tmp_path / "run")
    assert not found.is_complete
    before = len(found.cells)
    assert 0 < before < 20
    assert len({cell.id for cell in found.cells}) == before
    with local_farm(tmp_path, 2) as (address, _):
        ran = by_command(tmp_path, "--resume", "run", "--cluster", address)
    assert ran.returncode == 0, said(ran)
    found = load(tmp_path / "run")
    assert found.is_complete
    assert each_once(found)
    assert f"{before} cells had a record already, {20 - before} ran" in ran.stdout
    assert set(found.info.hosts) == {"local0", "local1"}


@pytest.mark.nightly
def test_only_holders_of_the_keys_can_connect(tmp_path: Path) -> None:
    write_suite(tmp_path, plain=2)
    for name in ("ours", "others"):
        make_keys(tmp_path / name)
    up = ("cluster", "up", "--address", "tls://127.0.0.1:0", "--keys", "ours")
    with conform(tmp_path, *up) as scheduler:
        assert scheduler.stdout is not None
        address = scheduler.stdout.readline().rpartition(" ")[2].strip()
        assert address.startswith("tls://")
        with conform(tmp_path, "cluster", "worker", address, "-n", "1", "--keys", "ours") as worker:
            assert worker.stdout is not None
            assert "slots: 1" in worker.stdout.readline()
            with_others = run(tmp_path, "none", "--cluster", address, "--keys", "others")
            assert with_others.returncode != 0
            assert "no scheduler answers" in said(with_others)
            without = run(tmp_path, "none", "--cluster", address.replace("tls", "tcp"))
            assert without.returncode != 0
            assert "no scheduler answers" in said(without)
            ours = run(tmp_path, "run", "--cluster", address, "--keys", "ours")
            assert ours.returncode == 0, said(ours)
    assert each_once(load(tmp_path / "run"))


def commit(root: Path, text: str) -> None:
    (root / "note.txt").write_text(text)
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", text)):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=root, check=True
        )


@pytest.mark.nightly
def test_a_worker_with_another_checkout_is_refused_by_name(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for root in (ours, theirs):
        write_suite(root, plain=2, mark=tmp_path)
        commit(root, root.name)
    with local_farm(theirs, 1) as (address, _):
        refused = run(ours, "refused", "--cluster", address, "--cluster-wait", "3")
        assert refused.returncode != 0
        assert "worker local0 is refused: checkout" in refused.stdout
        mixed = run(ours, "mixed", "--cluster", address, "--allow-mixed-workers")
        assert mixed.returncode == 0, said(mixed)
    found = load(ours / "mixed")
    assert found.info.hosts["local0"].git_commit != found.info.environment.git_commit
    assert {cell.worker for cell in found.cells} == {"local0"}


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--cluster", "scheduler:1"), "needs keys"),
        (("--cluster", "nonsense"), "is not an address"),
        (("--cluster", "127.0.0.1:1", "--keep", "all"), "--keep writes files on the workers"),
    ],
)
def test_misuse_is_reported_before_any_cell_runs(
    tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    write_suite(tmp_path, plain=1)
    ran = run(tmp_path, "run", *options)
    assert ran.returncode == 4
    assert words in said(ran)
    assert not (tmp_path / "run").exists()
