"""Distributes tests among xdist's workers: all cells of a case to one worker, longest case first.

Extends xdist's scope scheduler, which would hang or end a run with native crashes: it gives the
test that killed a worker to the next worker; it gives a replaced worker a single unit of work,
although a worker waits for a second test before it runs the first; and when two workers die at a
time it gives work to the second one, or to a replacement that has not collected yet.

A worker gets its next test before the current one ends. A cell that needs more memory than is
available therefore waits in its worker (:mod:`harness.workers.worker_status`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from harness.pytest_plugin import durations
from harness.pytest_plugin.cached.cached_cells import get_reused_cells, report_reused_cells
from harness.pytest_plugin.durations import get_work_unit

# A worker runs a test only when it has the next one.
_MIN_PENDING = 2


class CaseScheduler(LoadScopeScheduling):  # type: ignore[misc]  # xdist is untyped here
    """Scheduler with one unit of work per case, and one per other test."""

    _ordered = False
    _unreachable: set[WorkerController]
    workqueue: OrderedDict[str, dict[str, bool]]

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        super().__init__(config, log)
        self._unreachable = set()

    def schedule(self) -> None:
        """Distribute work, then report reused cells while workers run."""
        is_first = self.collection is None
        super().schedule()
        if is_first and self.collection:
            report_reused_cells(self.config)

    def _split_scope(self, nodeid: str) -> str:
        return get_work_unit(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if not self._ordered:
            # xdist fills the queue inside a method that then requests the first unit.
            took = durations.load_durations(self.config)
            longest = sorted(self._left_to_run(), key=lambda unit: -took.get(unit[0], 0.0))
            self.workqueue = OrderedDict(longest)
            self._ordered = True
        if not self.workqueue:
            return  # fewer units than workers
        try:
            super()._assign_work_unit(node)
        except OSError:
            # The worker is dead and xdist does not know yet: put the unit back.
            scope, unit = self.assigned_work[node].popitem()
            self.workqueue[scope] = unit
            self.workqueue.move_to_end(scope, last=False)
            self._unreachable.add(node)

    def _left_to_run(self) -> Iterator[tuple[str, dict[str, bool]]]:
        """Yield units without reused cells."""
        there = get_reused_cells(self.config)
        for scope, tests in self.workqueue.items():
            if left := {nodeid: done for nodeid, done in tests.items() if nodeid not in there}:
                yield scope, left

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """Mark a test as done; drop complete units, as xdist iterates over all of them."""
        super().mark_test_complete(node, item_index, duration)
        units = self.assigned_work[node]
        unit = self._split_scope(self.registered_collections[node][item_index])
        if all(units[unit].values()):
            del units[unit]

    def remove_node(self, node: WorkerController) -> str | None:
        """Remove a worker. Its running test counts as done; its other tests are queued again.

        Returns:
            The test that was running, or None.
        """
        workload = self.assigned_work.pop(node)
        pending = [
            (unit, nodeid)
            for unit in workload.values()
            for nodeid, completed in unit.items()
            if not completed
        ]
        if not pending:
            return None
        unit, running = pending[0]
        unit[running] = True
        for scope, tests in reversed(workload.items()):
            if not all(tests.values()):
                self.workqueue[scope] = tests
                self.workqueue.move_to_end(scope, last=False)
        for other in self.assigned_work:
            self._reschedule(other)
        return str(running)

    def _reschedule(self, node: WorkerController) -> None:
        if node in self._unreachable or node not in self.registered_collections:
            # The worker is dead, or is a replacement that has not collected yet.
            return
        super()._reschedule(node)
        while (
            self.workqueue
            and not node.shutting_down
            and node not in self._unreachable
            and self._pending_of(self.assigned_work[node]) < _MIN_PENDING
        ):
            self._assign_work_unit(node)
        if not self.workqueue:
            # Tell the worker not to wait for another test.
            super()._reschedule(node)
