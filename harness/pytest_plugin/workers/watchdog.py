"""Plugin of an xdist worker: loads backends, limits time and memory, writes stacks of crashes."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TextIO

import msgspec
import pytest

from harness.model import registry
from harness.pytest_plugin.items import (
    AVAILABLE_MEMORY,
    SELECTED,
    CellItem,
    pause_garbage_collector,
)
from harness.record.host import available_cores
from harness.record.recorder import LOGS
from harness.session.backend_states import VendorStates, write_states
from harness.session.run_one import ignore_vendor_warnings
from harness.workers.crash_record import stack_file
from harness.workers.worker_status import StatusFile, WorkerStatus


class Watchdog:
    """Writes stacks of crashes and timeouts, and the status of the worker, to the run folder.

    By the status the controller ends cells that exceed their memory limit.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.stack: TextIO | None = None
        self.board: StatusFile | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Load backends before the first cell, and write their states for the controller.

        This happens before xdist reports the collection of this worker to the controller.
        """
        cells = [item for item in session.items if isinstance(item, CellItem)]
        if not cells:
            return
        import torch

        self.stack = self._stack_file()
        self.board = self._board()
        faulthandler.enable(file=self.stack)
        # One thread per worker: idle OpenMP threads spin and slow down other workers.
        workers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        torch.set_num_threads(max(1, available_cores() // workers))
        ready = load_backends(cells)
        if self.board is not None:
            write_states(self.board.folder, os.environ["PYTEST_XDIST_WORKER"], ready)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Shut down quickly: if all tests were cells, freeze objects, as pytest runs five garbage
        collections to find warnings of destructors."""
        only_cells = session.items and all(isinstance(item, CellItem) for item in session.items)
        if only_cells and not session.config.getoption("conform_no_speed"):
            gc.freeze()
        if self.stack is not None:
            atexit.register(exit_worker)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, bool, bool]:
        """Wait for enough memory for the cell; end the process if it takes too long, even inside
        native code."""
        if self.stack is None or not isinstance(item, CellItem):
            return (yield)
        if self.stack.seekable():
            self.stack.seek(0)
            self.stack.truncate()
        timeout: float = self.config.getoption("conform_cell_timeout")
        with self._admitted(item):
            faulthandler.dump_traceback_later(timeout, exit=True, file=self.stack)
            try:
                return (yield)
            finally:
                faulthandler.cancel_dump_traceback_later()

    def _admitted(self, item: CellItem) -> AbstractContextManager[None]:
        if (board := self.board) is None:
            return nullcontext()
        room = self.config.stash[AVAILABLE_MEMORY]
        doing = WorkerStatus(
            pid=os.getpid(), cell=item.name, budget=min(item.memory, room), asked=item.memory
        )
        item.board, item.meter = board, (meter := board.make_meter(doing))
        return board.wait_for_memory(msgspec.structs.replace(doing, base=meter.base), room)

    def _board(self) -> StatusFile | None:
        try:
            return StatusFile(self._folder(), os.environ["PYTEST_XDIST_WORKER"])
        except OSError:
            return None  # see _stack_file

    def _folder(self) -> Path:
        folder = Path(self.config.getoption("conform_run_dir")) / LOGS
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _stack_file(self) -> TextIO:
        try:
            name = os.environ["PYTEST_XDIST_WORKER"]
            return stack_file(self._folder(), name).open("w+", encoding="utf-8")
        except OSError:
            # Keep the time limit on a full disk; the controller reports the disk.
            return sys.__stderr__ or sys.stderr


def exit_worker() -> None:
    """Run exit handlers, then end this process at once, as unloading torch takes seconds.

    Register it last: handlers registered later have run already and would run again.
    """
    atexit.unregister(exit_worker)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)


def load_backends(cells: Sequence[CellItem]) -> VendorStates:
    """Load the backends of these cells, and with ``--speed`` freeze their objects.

    Returns:
        States of the backends, and speed parts that are not installed.
    """
    from harness import vendors
    from harness.pipeline import speed

    quick = not cells or not cells[0].config.option.conform_no_speed
    with ignore_vendor_warnings(), pause_garbage_collector() if quick else nullcontext():
        selected = cells[0].config.stash[SELECTED] if cells else []
        states = registry.find_backend_states((item.target.backend for item in cells), selected)
        slow = speed.find_disabled_parts() if quick else {}
        ready = VendorStates(
            backends=states, slow_parts=dict(slow), missing_names=dict(vendors.find_missing_names())
        )
    if quick:
        speed.tune_garbage_collector()
    return ready
