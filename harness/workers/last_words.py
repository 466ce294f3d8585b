"""The last stderr lines of a process that died: an assertion, or a message of glibc."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.errors import printable

_STACK = re.compile(r"^(?:Fatal Python error.*|Timeout \(.*|Current thread .*)$", re.MULTILINE)
_ABORTED = "Abort"
_CAUSE = re.compile(
    r"assert|abort|terminat|what\(\):|free\(\)|malloc|munmap_chunk|corrupt|double free"
    r"|smashing|Check failed|Sanitizer|[Ee]rror|[Ff]atal|[Pp]anic|[Uu]ncaught|^\[[\w./-]+:\d+\]"
)
_NOISE = re.compile(r"cpuinfo|Reading file")
_LOOKED_AT, _WORDS, _LENGTH = 40, 3, 200
_SUFFIX = ".words"


@contextmanager
def capture_stderr(folder: Path, worker: str) -> Iterator[None]:
    """Redirect the error stream of native code to a worker's file in this block.

    The file remains if this process dies; otherwise its content goes to the error stream
    afterwards.

    Args:
        folder: the folder of all workers' files.
        worker: name of the worker.
    """
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    try:
        stream = os.dup(2)
    except OSError:  # there is no error stream
        yield
        return
    try:
        with (folder / f"{worker}{_SUFFIX}").open("w+b", buffering=0) as file:
            os.dup2(file.fileno(), 2)
            try:
                yield
            finally:
                with suppress(OSError, ValueError):
                    sys.stderr.flush()
                os.dup2(stream, 2)
                file.seek(0)
                with suppress(OSError):
                    os.write(2, file.read())
    finally:
        os.close(stream)


def read_captured_stderr(folder: Path, worker: str) -> str:
    """Return the stderr lines of a worker's last cell; empty if none were captured."""
    try:
        return (folder / f"{worker}{_SUFFIX}").read_text(errors="replace")
    except OSError:
        return ""


def extract_last_stderr_lines(log: str) -> str:
    """Return a process' last stderr lines on one line: an assertion, glibc's message, or the
    runtime's log; empty without such lines.

    Args:
        log: its error stream; faulthandler's stack may follow.
    """
    printed, ending = _split(log)
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    lines = [line for line in lines if not _NOISE.search(line)]
    causes = [line for line in lines[-_LOOKED_AT:] if _CAUSE.search(line)]
    if not causes and _ABORTED in ending:
        causes = lines[-1:]
    words = (line if len(line) <= _LENGTH else f"{line[: _LENGTH - 1]}…" for line in causes)
    return printable("; ".join(list(dict.fromkeys(words))[-_WORDS:]))


def _split(log: str) -> tuple[str, str]:
    """Split the lines into those before the crash's stack, and the line that begins the stack."""
    found = _STACK.search(log)
    return (log, "") if found is None else (log[: found.start()], found[0])
