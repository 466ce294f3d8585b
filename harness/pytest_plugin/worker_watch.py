"""Watches xdist workers: their memory, what they collect, and their deaths."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.pytest_plugin.run_start import includes_suites
from harness.record.cell import Cell
from harness.record.folder import saved_folder
from harness.record.recorder import LOGS
from harness.session.discovery import load_suite
from harness.session.run_one import judge_crashed_cell
from harness.workers.crash_record import add_observed_memory, build_crash_record
from harness.workers.memory_monitor import MemoryMonitor

# After this many consecutive deaths of workers without a new record the session ends.
_MAX_IDLE_DEATHS = 3


class WorkerWatch:
    """Plugin that ends a session whose workers die before they run anything.

    Args:
        config: configuration of the session.
        count_records: returns the number of records that the session has written.
        stop: ends the session for a reason.
    """

    def __init__(
        self, config: pytest.Config, count_records: Callable[[], int], stop: Callable[[str], None]
    ) -> None:
        self.config = config
        self._count_records = count_records
        self._stop = stop
        self._tests: list[str] | None = None
        self._collected: set[str] = set()
        self._deaths = 0
        self._idle_deaths = 0
        self._recorded_at_death = -1
        self._logs = Path(config.getoption("conform_run_dir")) / LOGS
        self._memory = MemoryMonitor(self._logs)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Observe the memory of the worker, and check that it collected the same tests."""
        if self._tests is None:
            self._tests = ids
        elif self._deaths and ids != self._tests:  # xdist itself compares the first workers
            # The scheduler would give it nothing, and with a single worker wait forever.
            self._stop(
                f"worker {node.gateway.id}, which replaces a dead one, collected {len(ids)} tests "
                f"instead of {len(self._tests)}; the collection must not depend on the worker or "
                "the time"
            )
        self._collected.add(node.gateway.id)
        self._memory.add(node.gateway.id)
        if not self._memory.is_alive():
            self._memory.start()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """End the session if workers die before they run anything."""
        name = node.gateway.id
        self._memory.remove(name)
        if not error:
            return
        if not self._deaths and name not in self._collected and includes_suites(self.config):
            # No test has run yet, so that no result is lost; a replacement that survives would
            # hide that the selected suites kill workers.
            self._stop(f"worker {name} died while it collected; run with -n 0 to see why")
        self._deaths += 1
        recorded = self._count_records()
        self._idle_deaths = self._idle_deaths + 1 if recorded == self._recorded_at_death else 1
        self._recorded_at_death = recorded
        if self._idle_deaths >= _MAX_IDLE_DEATHS:
            self._stop(
                f"{_MAX_IDLE_DEATHS} workers died in a row without running anything; run with -n 0 "
                "to see why"
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """End the observation of memory."""
        self._memory.close()

    def add_memory(self, cell: Cell) -> None:
        """Add the memory that was observed while a cell ran to its record."""
        add_observed_memory(cell, self._memory.pop_observation(cell.id))

    def build_crash_record(self, name: str, nodeid: str, worker: str) -> Cell:
        """Build the record of a cell whose worker died, and keep or delete its files.

        Args:
            name: id of the cell.
            nodeid: node id of its test.
            worker: name of the worker.
        """
        suite = load_suite(self.config.rootpath / nodeid.partition("::")[0])
        seed = self.config.getoption("conform_seed")
        observed = self._memory.pop_observation(name)
        cell, is_judged = build_crash_record(self._logs, name, worker, seed, observed)
        if not is_judged:
            judge_crashed_cell(cell, suite)
        left = Path(self.config.getoption("conform_run_dir")) / saved_folder(cell.id)
        if left.is_dir():
            if cell.status.is_red or self.config.getoption("conform_keep") == "all":
                cell.saved_to = saved_folder(cell.id)
            else:
                shutil.rmtree(left, ignore_errors=True)
        return cell
