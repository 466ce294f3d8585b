"""A worker's side of a run: what its cells need, loaded once; their limits; stacks of crashes."""

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
    ROOM,
    SELECTED,
    CellItem,
    collector_paused,
)
from harness.record.host import available_cores
from harness.record.recorder import LOGS
from harness.session.backend_states import VendorStates, write_states
from harness.session.run_one import ignore_vendor_warnings
from harness.workers.crash_record import stack_file
from harness.workers.worker_status import StatusFile, WorkerStatus


class Watchdog:
    """In a worker: stacks of native crashes and of timeouts go where the controller looks, and so
    does what the worker does, by which the controller ends a cell that takes too much memory."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.stack: TextIO | None = None
        self.board: StatusFile | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Load what the cells need before the first one is timed, and say of it what the controller
        writes down: before xdist tells it that this worker has collected."""
        cells = [item for item in session.items if isinstance(item, CellItem)]
        if not cells:
            return
        import torch

        self.stack = self._stack_file()
        self.board = self._board()
        faulthandler.enable(file=self.stack)
        # One thread a worker: idle OpenMP threads spin, and cost the neighbour its core.
        workers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        torch.set_num_threads(max(1, available_cores() // workers))
        ready = load_and_settle(cells)
        if self.board is not None:
            write_states(self.board.folder, os.environ["PYTEST_XDIST_WORKER"], ready)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """End soon: where all tests were cells, whose warnings are vendors', let pytest not look
        five times through all objects for what warns when it is collected."""
        only_cells = session.items and all(isinstance(item, CellItem) for item in session.items)
        if only_cells and not session.config.getoption("no_speed"):
            gc.freeze()
        if self.stack is not None:
            atexit.register(leave)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, bool, bool]:
        """Wait until there is memory for the cell; end the process when it takes too long, even
        inside native code."""
        if self.stack is None or not isinstance(item, CellItem):
            return (yield)
        if self.stack.seekable():
            self.stack.seek(0)
            self.stack.truncate()
        timeout: float = self.config.getoption("cell_timeout")
        with self._admitted(item):
            faulthandler.dump_traceback_later(timeout, exit=True, file=self.stack)
            try:
                return (yield)
            finally:
                faulthandler.cancel_dump_traceback_later()

    def _admitted(self, item: CellItem) -> AbstractContextManager[None]:
        if (board := self.board) is None:
            return nullcontext()
        room = self.config.stash[ROOM]
        doing = WorkerStatus(
            pid=os.getpid(), cell=item.name, budget=min(item.memory, room), asked=item.memory
        )
        item.board, item.meter = board, (meter := board.make_meter(doing))
        return board.wait_for_memory(msgspec.structs.replace(doing, base=meter.base), room)

    def _board(self) -> StatusFile | None:
        try:
            return StatusFile(self._folder(), os.environ["PYTEST_XDIST_WORKER"])
        except OSError:
            return None  # as below

    def _folder(self) -> Path:
        folder = Path(self.config.getoption("run_dir")) / LOGS
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _stack_file(self) -> TextIO:
        try:
            name = os.environ["PYTEST_XDIST_WORKER"]
            return stack_file(self._folder(), name).open("w+", encoding="utf-8")
        except OSError:
            # A full disk costs the stacks, not the time limit; the controller says that it is full.
            return sys.__stderr__ or sys.stderr


def leave() -> None:
    """Do what is to be done at exit, and end this process at once: the session waits for it, and to
    take apart what torch and executorch have loaded takes seconds.

    To be registered last, as what was registered later is done already, and would be done again.
    """
    atexit.unregister(leave)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)


def load_and_settle(cells: Sequence[CellItem]) -> VendorStates:
    """Load the backends of these cells, and with ``--speed`` tell the garbage collector that they
    stay.

    Returns:
        What they say of themselves, and what keeps torch quick and cannot.
    """
    from harness import vendors
    from harness.pipeline import speed

    quick = not cells or not cells[0].config.option.no_speed
    with ignore_vendor_warnings(), collector_paused() if quick else nullcontext():
        selected = cells[0].config.stash[SELECTED] if cells else []
        states = registry.find_backend_states((item.target.backend for item in cells), selected)
        slow = speed.find_disabled_parts() if quick else {}
        ready = VendorStates(
            backends=states, slow_parts=dict(slow), missing_names=dict(vendors.find_missing_names())
        )
    if quick:
        speed.tune_garbage_collector()
    return ready
