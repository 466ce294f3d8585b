"""The last stderr lines of a process that dies are recorded, without other output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.record.cell import Delegation, Status
from harness.workers import worker_status
from harness.workers.crash_record import build_crash_record, stack_file
from harness.workers.last_words import extract_last_stderr_lines, read_captured_stderr

STACK = "Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n  File ..."


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (f"loading\nfree(): invalid pointer\n{STACK}", "free(): invalid pointer"),
        (
            "terminate called after throwing an instance of 'std::runtime_error'\n"
            f"  what():  no such kernel\n{STACK}",
            "terminate called after throwing an instance of 'std::runtime_error'; "
            "what():  no such kernel",
        ),
        (
            f"[cpuinfo_utils.cpp:71] Error: no file\n[x.h:1] assert failed (a < b)\n{STACK}",
            "[x.h:1] assert failed (a < b)",
        ),
        # The last line counts after an abort, not after another signal.
        (f"out of tables\n{STACK}", "out of tables"),
        (f"a line of the model's\n{STACK.replace('Aborted', 'Segmentation fault')}", ""),
        ("", ""),
    ],
)
def test_last_words(log: str, words: str) -> None:
    assert extract_last_stderr_lines(log) == words


CHILD = """
import ctypes, faulthandler, sys
from pathlib import Path
from harness.workers.worker_status import StatusFile, WorkerStatus
from harness.workers.crash_record import stack_file
from harness.workers.last_words import capture_stderr
from harness.record.cell import Cell, Delegation, Status
folder = Path(sys.argv[1])
faulthandler.enable(file=stack_file(folder, "gw0").open("w"))
board = StatusFile(folder, "gw0")
board.write(WorkerStatus(pid=1, cell="c@x:fp32", stage="run"))
board.store_lowered(Cell(case="c", target="x:fp32", status=Status.LOWERED, program_bytes=7,
                        delegation=Delegation(delegates=1, delegated_nodes=3)))
with capture_stderr(folder, "gw0"):
    libc = ctypes.CDLL(None)
    libc.perror(b"assertion 'fits' failed")
    if len(sys.argv) > 2:
        libc.abort()
"""


def test_the_record_of_a_dead_worker_has_its_words_and_the_delegation(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CHILD, tmp_path, "dies"], check=False)
    assert done.returncode < 0
    cell, is_judged = build_crash_record(tmp_path, "c@x:fp32", "gw0", 0, None)
    assert not is_judged
    assert (cell.status, cell.stage) == (Status.CRASHED, "run")
    assert cell.error is not None
    assert cell.error.startswith("Fatal Python error: Aborted: assertion 'fits' failed")
    assert cell.delegation.delegated_nodes == 3
    assert cell.program_bytes == 7
    # The delegation of another cell of the worker is not taken.
    assert build_crash_record(tmp_path, "d@x:fp32", "gw0", 0, None)[0].delegation == Delegation()


def test_the_error_stream_gets_the_words_of_a_process_that_lives(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, tmp_path], capture_output=True, text=True, check=True
    )
    assert "assertion 'fits' failed" in done.stderr
    assert "assertion 'fits' failed" in read_captured_stderr(tmp_path, "gw0")
    assert read_captured_stderr(tmp_path, "gw1") == ""
    assert worker_status.read_lowered_record(tmp_path, "gw1") is None
    assert not stack_file(tmp_path, "gw0").read_text()
