"""What the ExecuTorch runtime says of a failure: its exceptions carry a number, its log the kernel,
the check that did not hold, and the instruction."""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, suppress

_LINE = re.compile(r"^\[(?P<where>[\w./-]+:\d+)\] (?P<what>.+)$", re.MULTILINE)
# What the runtime says of the machine, and of each argument of a call that failed.
_BESIDE = re.compile(r"cpuinfo|Reading file|^arg \d+ with type id")
_INSTRUCTION = re.compile(
    r"at instruction 0:(\d+)|CALL_DELEGATE execute failed at instruction (\d+): 0x"
)
_SAID = 3
_LENGTH = 160

_PROCESSOR = b"[cpuinfo_utils.cpp:"

_TURN = threading.RLock()  # there is one error stream
_FIRST = [True]


def capture_runtime_log(fails: Callable[[], object]) -> str:
    """What the runtime logs while something runs that fails again; empty where it logs nothing.

    The error stream of the whole process is redirected meanwhile, so that this is for what has
    failed once. Nothing is raised.
    """
    said = io.StringIO()  # the bindings write to Python's stream, the C++ library to the process'
    with _TURN, tempfile.TemporaryFile() as log:
        sys.stderr.flush()
        kept = os.dup(2)
        try:
            os.dup2(log.fileno(), 2)
            with suppress(Exception), redirect_stderr(said):
                fails()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        log.seek(0)
        return extract_failure(f"{said.getvalue()}\n{log.read().decode('utf-8', 'replace')}")


@contextmanager
def filter_first_load_messages() -> Iterator[None]:
    """The first method that a process loads starts the runtime's threads, and these say on the
    error stream that they look for files of other processors: that is left out, once a process,
    and all else said again."""
    if not _FIRST:
        yield
        return
    with _TURN, tempfile.TemporaryFile() as log:
        _FIRST.clear()
        try:
            kept = os.dup(2)
        except OSError:  # there is no error stream
            yield
            return
        try:
            os.dup2(log.fileno(), 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            log.seek(0)
            lines = log.read().splitlines(keepends=True)
            with suppress(OSError):
                os.write(2, b"".join(line for line in lines if not line.startswith(_PROCESSOR)))


def extract_failure(text: str) -> str:
    """The last of what a log has of a failure, on one line; empty where it has nothing."""
    lines = [
        f"{found['what'][:_LENGTH]} ({found['where']})"
        for found in _LINE.finditer(text)
        if not _BESIDE.search(found["where"] + found["what"]) and not _BESIDE.match(found["what"])
    ]
    return "; ".join(lines[-_SAID:])


def format_instruction(instruction: int) -> str:
    """An instruction of the first chain, in the runtime's words."""
    return f"at instruction 0:{instruction}"


def find_instruction(error: BaseException) -> int | None:
    """The instruction of the first chain that an error names, or None: in what the runtime says, or
    in a note of the interpreter's."""
    for text in [str(error), *getattr(error, "__notes__", [])]:
        if (found := _INSTRUCTION.search(text)) is not None:
            return int(found[1] or found[2])
    return None
