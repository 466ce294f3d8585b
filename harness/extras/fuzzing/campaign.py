"""Searches for wrong programs for a given time, in a worker process that a program may crash.

Does not import torch.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import msgspec

from harness.errors import UsageError
from harness.execution.child_process import describe_exit
from harness.extras.fuzzing.messages import FoundProgram, FuzzEvent, FuzzRequest, ProgramStarted

WORKER = "harness.extras.fuzzing.worker"


def run_campaign(
    request: FuzzRequest,
    folder: Path,
    *,
    program_timeout: float = 300.0,
    on_program: Callable[[ProgramStarted], None] = lambda started: None,
) -> Iterator[FoundProgram]:
    """Search for wrong programs; each is written to a file before it is yielded.

    Args:
        request: targets and limits.
        folder: folder of the files.
        program_timeout: seconds after which a program counts as hanging.
        on_program: called with each program before it is judged.

    Raises:
        UsageError: the folder cannot be written, or the process ends before it tried any program.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from error
    known, until, seed = list(request.known), time.monotonic() + request.seconds, request.seed
    while (left := until - time.monotonic()) > 0:
        asked = msgspec.structs.replace(request, seconds=left, seed=seed, known=known)
        last: ProgramStarted | None = None
        with tempfile.TemporaryFile() as errors:
            worker = _WorkerProcess(asked, program_timeout, errors)
            for event in worker.read_events():
                if isinstance(event, ProgramStarted):
                    last = event
                    on_program(event)
                    continue
                known.append(event)
                _write(folder, event)
                yield event
            if worker.is_success:
                return
            if last is None:
                errors.seek(0)
                said = errors.read().decode(errors="replace").strip().splitlines()[-1:]
                raise UsageError(f"the worker process {worker.how_ended}: {' '.join(said)}")
        report = _make_crash_report(last, worker.how_ended, request.targets)
        known.append(report)
        _write(folder, report)
        yield report
        seed += 1000  # new programs


def _make_crash_report(last: ProgramStarted, end: str, targets: list[str]) -> FoundProgram:
    target = targets[0] if len(targets) == 1 else "|".join(targets)
    return FoundProgram(
        name=last.name,
        target=target,
        kind="crashed",
        message=f"the process {end}; the program was not shrunk",
        step_count=last.text.count("\n        v"),
        called_names=last.called_names,
        text=last.text,
        tried=last.tried,
    )


def _write(folder: Path, report: FoundProgram) -> None:
    path = folder / f"{report.name.replace('/', '_')}.py"
    try:
        path.write_text(report.text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


class _WorkerProcess:
    """One worker process, and how it ended."""

    def __init__(self, request: FuzzRequest, program_timeout: float, errors: IO[bytes]) -> None:
        self._quest, self._program_timeout, self._errors = request, program_timeout, errors
        self._heard = time.monotonic()
        self.is_success = False
        self.how_ended = ""

    def read_events(self) -> Iterator[FuzzEvent]:
        process = subprocess.Popen(
            [sys.executable, "-m", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        hung = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(process, hung), daemon=True)
        self._heard = time.monotonic()
        watcher.start()
        try:
            process.stdin.write(msgspec.json.encode(self._quest))
            process.stdin.close()
            for line in process.stdout:
                self._heard = time.monotonic()
                yield msgspec.json.decode(line, type=FuzzEvent)
        finally:
            if not self._is_over(process):
                process.kill()
            code = process.wait()
            self.is_success = code == 0
            self.how_ended = (
                f"hung for {self._program_timeout:.0f} s" if hung.is_set() else describe_exit(code)
            )

    def _is_over(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether a process that closed its output ends by itself."""
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _watch(self, process: subprocess.Popen[bytes], hung: threading.Event) -> None:
        while process.poll() is None:
            if time.monotonic() - self._heard > self._program_timeout:
                hung.set()
                process.kill()
                return
            time.sleep(0.5)
