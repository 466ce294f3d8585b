"""Read the ExecuTorch runtime's log of a failure.

The runtime's exceptions have only an error code; its log has the kernel, the failed check and the
instruction.
"""

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
# Lines about the processor, and about each argument of a failed call.
_UNRELATED = re.compile(r"cpuinfo|Reading file|^arg \d+ with type id")
_INSTRUCTION = re.compile(
    r"at instruction 0:(\d+)|CALL_DELEGATE execute failed at instruction (\d+): 0x"
)
_MAX_LINES = 3
_MAX_LENGTH = 160

_PROCESSOR = b"[cpuinfo_utils.cpp:"

_STREAM_LOCK = threading.RLock()  # the process has one standard error
_IS_FIRST_LOAD = [True]


def capture_runtime_log(fails: Callable[[], object]) -> str:
    """Return the runtime's log of a function that fails; empty if it logs nothing.

    Call it after a first failure: it runs the function again, and redirects standard error of the
    whole process in the meantime. It does not raise.
    """
    log_text = io.StringIO()  # bindings write to sys.stderr, the C++ library to the descriptor
    with _STREAM_LOCK, tempfile.TemporaryFile() as log:
        sys.stderr.flush()
        saved = os.dup(2)
        try:
            os.dup2(log.fileno(), 2)
            with suppress(Exception), redirect_stderr(log_text):
                fails()
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        log.seek(0)
        return extract_failure(f"{log_text.getvalue()}\n{log.read().decode('utf-8', 'replace')}")


@contextmanager
def filter_first_load_messages() -> Iterator[None]:
    """Hide messages about processor files while this process loads its first method.

    The first method starts the runtime's threads, which write these messages to standard error.
    Other output in the block is printed when it ends.
    """
    if not _IS_FIRST_LOAD:
        yield
        return
    with _STREAM_LOCK, tempfile.TemporaryFile() as log:
        _IS_FIRST_LOAD.clear()
        try:
            saved = os.dup(2)
        except OSError:  # standard error is closed
            yield
            return
        try:
            os.dup2(log.fileno(), 2)
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            log.seek(0)
            lines = log.read().splitlines(keepends=True)
            with suppress(OSError):
                os.write(2, b"".join(line for line in lines if not line.startswith(_PROCESSOR)))


def extract_failure(text: str) -> str:
    """Return the last lines of a log that report a failure, joined; empty if there are none."""
    lines = [
        f"{found['what'][:_MAX_LENGTH]} ({found['where']})"
        for found in _LINE.finditer(text)
        if not _UNRELATED.search(found["where"] + found["what"])
        and not _UNRELATED.match(found["what"])
    ]
    return "; ".join(lines[-_MAX_LINES:])


def format_instruction(instruction: int) -> str:
    """Name an instruction of the first chain in the runtime's format."""
    return f"at instruction 0:{instruction}"


def find_instruction(error: BaseException) -> int | None:
    """Return the instruction of the first chain that an error names, or None.

    The number is in the runtime's message, or in a note that the interpreter added.
    """
    for text in [str(error), *getattr(error, "__notes__", [])]:
        if (found := _INSTRUCTION.search(text)) is not None:
            return int(found[1] or found[2])
    return None
