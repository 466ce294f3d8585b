"""Clusters for tests: described workers, and real workers on this machine."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from harness.cluster import slot_process
from harness.cluster.messages import WorkerInfo
from harness.cluster.placement import RemoteWorker
from harness.cluster.slot_process import PROCESS_NAME
from harness.pytest_plugin.tests import sessions
from harness.record.host import Environment
from harness.record.run import BackendState
from harness.workers import forked_python

SUITE = """
    import os, signal, time
    from pathlib import Path

    import torch

    from harness import Case

    class Doubles(torch.nn.Module):
        def forward(self, x):
            return x + x

    class Slow(Doubles):
        def forward(self, x):
            time.sleep({seconds})
            return x + x

    class Ends(Doubles):
        def forward(self, x):
            os.kill(os.getpid(), signal.SIGSEGV)
            return x + x

    class Once(Doubles):
        def forward(self, x):
            place = Path({folder!r}) / "was-here"
            if not place.exists():
                place.touch()
                os.kill(os.getpid(), signal.SIGSEGV)
            return x + x

    def case(name, module):
        return Case(name, lambda: (module(), (torch.randn(2, 3),)))

    CASES = [
        *(case(f"plain/{{number}}", Doubles) for number in range({plain})),
        *(case(f"slow/{{number}}", Slow) for number in range({slow})),
        *(case("ends", Ends) for _ in range({ends})),
        *(case("once", Once) for _ in range({once})),
    ]
"""

_OF_A_RUN = ("--targets", "null:eager", "--progress", "lines")


def place(name: str, *, slots: int = 1, memory: float = 8.0, **runtimes: str) -> RemoteWorker:
    """A worker; without runtimes it has the null backend only."""
    states = {
        backend: BackendState(
            available=runtime not in ("none", "lowers"),
            runtime=runtime,
            can_lower=runtime != "none",
        )
        for backend, runtime in (runtimes or {"null": "emulated"}).items()
    }
    packages = {"executorch": "1.5.1"}
    return RemoteWorker(
        f"tcp://{name}", name, slots, memory, WorkerInfo(Environment(packages=packages), states)
    )


def write_suite(
    root: Path,
    *,
    plain: int = 4,
    slow: int = 0,
    seconds: float = 0.3,
    ends: int = 0,
    once: int = 0,
    mark: Path | None = None,
) -> None:
    """A checkout with one suite.

    Args:
        root: where.
        plain: cases that double their input.
        slow: cases that sleep as well, each time that they are run.
        seconds: how long.
        ends: cases that end their process.
        once: cases that do so the first time alone.
        mark: the folder by which these know; None for the checkout.
    """
    folder = root / "suites"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    text = textwrap.dedent(SUITE).format(
        plain=plain, slow=slow, seconds=seconds, ends=ends, once=once, folder=str(mark or root)
    )
    (folder / "small.py").write_text(text)
    (root / "pytest.ini").write_text("[pytest]\nconform_suites = suites\n")


@contextmanager
def conform(
    root: Path, *arguments: str, inside: Sequence[str] = ()
) -> Iterator[subprocess.Popen[str]]:
    """A ``conform`` command that runs beside the test; its output is read line by line.

    Args:
        root: where.
        arguments: the command.
        inside: another command that is handed this one.
    """
    command = [*inside, sys.executable, "-m", "harness.cli", *arguments]
    with subprocess.Popen(
        command,
        cwd=root,
        env=environment(shared=not inside),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            for each in [process, *family(process.pid)]:
                if each.is_running() if isinstance(each, psutil.Process) else each.poll() is None:
                    each.kill()


def environment(*, shared: bool = True) -> dict[str, str]:
    """Environment of a command; it may fork workers from the fork server of the tests."""
    return sessions.environment(shared=shared)


def family(pid: int) -> list[psutil.Process]:
    """The processes below one."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def workers_of(pid: int) -> list[psutil.Process]:
    """List the Dask workers among the descendants of a process."""
    return [each for each in family(pid) if "spawn_main" in " ".join(_of(each, "cmdline") or ())]


def runners_of(root: Path) -> list[psutil.Process]:
    """The processes that run cells of a checkout, without the commands that stand for them."""

    def runs_cells(each: psutil.Process) -> bool:
        command = _of(each, "cmdline") or ()
        is_own = slot_process.__name__ in command and forked_python.__file__ not in command
        return is_own or _of(each, "name") == PROCESS_NAME

    return [
        each for each in psutil.process_iter() if _of(each, "cwd") == str(root) and runs_cells(each)
    ]


def _of(process: psutil.Process, what: str) -> Any:
    """Read an attribute of a process; None if it has ended or belongs to another user."""
    try:
        return getattr(process, what)()
    except psutil.Error:
        return None


@contextmanager
def local_farm(root: Path, workers: int, *options: str) -> Iterator[tuple[str, int]]:
    """A scheduler with workers of this machine: its address, and its process."""
    command = ("cluster", "up", "--address", "127.0.0.1:0", "--local", str(workers), *options)
    with conform(root, *command) as process:
        assert process.stdout is not None
        address = process.stdout.readline().rpartition(" ")[2].strip()
        assert "workers" in process.stdout.readline()
        yield address, process.pid


def run(root: Path, folder: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run all cells of a checkout, as ``conform run`` starts pytest."""
    plugins = ("-p", "harness.pytest_plugin", "-p", "no:logging")
    asked = (*plugins, "-q", "-n", "0", *_OF_A_RUN, "--run-dir", folder, *options, "suites")
    return sessions.ended("pytest", asked, root, environment(), seconds=900)


def by_command(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``conform run`` in a checkout, to its end."""
    command = ["run", *arguments]
    return sessions.ended("harness.cli", command, root, environment(), seconds=900)
