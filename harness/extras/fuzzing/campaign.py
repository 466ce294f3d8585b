"""Searches for wrong programs for a given time, in a worker process that a program may crash.

Does not import torch.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from harness.errors import UsageError, WorkerEnded
from harness.extras.fuzzing.messages import (
    FoundProgram,
    FuzzEvent,
    FuzzRequest,
    ProgramStarted,
    ReachedCode,
)
from harness.workers.process import WorkerProcess
from harness.workers.protocol import Finished, Refused


def run_campaign(
    request: FuzzRequest,
    folder: Path,
    *,
    program_timeout: float = 300.0,
    on_program: Callable[[ProgramStarted], None] = lambda started: None,
) -> Iterator[FoundProgram | ReachedCode]:
    """Search for wrong programs; each is written to a file before it is yielded.

    A guided search also yields programs that execute code which no recorded cell executes; their
    files are in the folder ``reached`` within the folder.

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
        with tempfile.TemporaryDirectory(prefix="conform-") as made:
            output = Path(made) / "output"
            process: WorkerProcess[FuzzEvent] = WorkerProcess(
                "harness.extras.fuzzing.worker", FuzzEvent, output=output
            )
            try:
                process.start()
                process.send(asked)
                # No limit before the first program: the process imports torch.
                for event in process.events():
                    match event:
                        case ProgramStarted():
                            last = event
                            on_program(event)
                        case FoundProgram():
                            known.append(event)
                            _write(folder, event)
                            yield event
                        case ReachedCode():
                            _write(folder / "reached", event)
                            yield event
                        case Finished():
                            return
                        case Refused():
                            raise UsageError(event.message)
                    process.limit_time(program_timeout)
            except (WorkerEnded, OSError):
                pass
            finally:
                process.close()
            if last is None:
                printed = output.read_text(errors="replace").strip().splitlines()[-1:]
                raise UsageError(f"the worker process {process.end}: {' '.join(printed)}")
        end = f"hung for {program_timeout:.0f} s" if process.is_timed_out else process.end
        report = _make_crash_report(last, end, request.targets)
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


def _write(folder: Path, report: FoundProgram | ReachedCode) -> None:
    path = folder / f"{report.name.replace('/', '_')}.py"
    try:
        folder.mkdir(exist_ok=True)
        path.write_text(report.text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
