"""Looking for wrong programs for some minutes, in a process that may be taken down by one of them.
Imports no torch."""

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
from harness.execution.child_process import how_it_ended
from harness.extras.fuzzing.messages import Quest, Report, Told, Trying

WORKER = "harness.extras.fuzzing.worker"


def campaign(
    quest: Quest,
    folder: Path,
    *,
    patience: float = 300.0,
    say: Callable[[Trying], None] = lambda trying: None,
) -> Iterator[Report]:
    """Look for wrong programs; each that is found is written as a file before it is yielded.

    Args:
        quest: what to look for.
        folder: where files go.
        patience: seconds that one program may take before it counts as one that hangs.
        say: hears which program is judged.

    Raises:
        UsageError: the folder cannot be written, or the process ends without having tried anything.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from error
    known, until, seed = list(quest.known), time.monotonic() + quest.seconds, quest.seed
    while (left := until - time.monotonic()) > 0:
        asked = msgspec.structs.replace(quest, seconds=left, seed=seed, known=known)
        last: Trying | None = None
        with tempfile.TemporaryFile() as errors:
            life = _Life(asked, patience, errors)
            for told in life.told():
                if isinstance(told, Trying):
                    last = told
                    say(told)
                    continue
                known.append(told)
                _write(folder, told)
                yield told
            if life.ended_well:
                return
            if last is None:
                errors.seek(0)
                said = errors.read().decode(errors="replace").strip().splitlines()[-1:]
                raise UsageError(f"the process that looks {life.end}: {' '.join(said)}")
        report = _death(last, life.end, quest.targets)
        known.append(report)
        _write(folder, report)
        yield report
        seed += 1000  # programs that nobody has seen


def _death(last: Trying, end: str, targets: list[str]) -> Report:
    target = targets[0] if len(targets) == 1 else "|".join(targets)
    return Report(
        name=last.name,
        target=target,
        kind="crashed",
        said=f"the process {end}; nothing made it smaller",
        ops=last.text.count("\n        v"),
        words=last.words,
        text=last.text,
        tried=last.tried,
    )


def _write(folder: Path, report: Report) -> None:
    path = folder / f"{report.name.replace('/', '_')}.py"
    try:
        path.write_text(report.text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


class _Life:
    """One process, and how it ended."""

    def __init__(self, quest: Quest, patience: float, errors: IO[bytes]) -> None:
        self._quest, self._patience, self._errors = quest, patience, errors
        self._heard = time.monotonic()
        self.ended_well = False
        self.end = ""

    def told(self) -> Iterator[Told]:
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
                yield msgspec.json.decode(line, type=Told)
        finally:
            if not self._is_over(process):
                process.kill()
            code = process.wait()
            self.ended_well = code == 0
            self.end = f"hung for {self._patience:.0f} s" if hung.is_set() else how_it_ended(code)

    def _is_over(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether a process that closed its output ends by itself."""
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _watch(self, process: subprocess.Popen[bytes], hung: threading.Event) -> None:
        while process.poll() is None:
            if time.monotonic() - self._heard > self._patience:
                hung.set()
                process.kill()
                return
            time.sleep(0.5)
