"""How tests are given to xdist's workers: the cells of a case together, the longest first, a dead
one never again.

xdist's scope scheduler does most of it. Four things it does would hang or end a run with native
crashes: it gives the test that killed a worker to the next worker, it hands a replaced worker one
unit of work, where a worker waits for a second test before it runs the first, and where two workers
die at a time it gives work to the second one, which raises, or to its successor before that has
collected.

A worker is given its next test before the present one ends, so that none can be held back here: a
cell for which there is no memory waits in its worker (:mod:`harness.workers.worker_status`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from harness.pytest_plugin import durations
from harness.pytest_plugin.cached.cached_cells import known, tell
from harness.pytest_plugin.durations import unit_of

# A worker runs a test once it knows the next one.
_ENOUGH = 2


class CaseScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist is untyped here
    """One unit of work a case; any other test is a unit of its own."""

    _ordered = False
    _unreachable: set[WorkerController]
    workqueue: OrderedDict[str, dict[str, bool]]

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        super().__init__(config, log)
        self._unreachable = set()

    def schedule(self) -> None:
        """Give the workers what there is to run; then tell what need not run, while they do."""
        is_first = self.collection is None
        super().schedule()
        if is_first and self.collection:
            tell(self.config)

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if not self._ordered:
            # xdist fills the queue in the middle of a method, which then asks for the first.
            took = durations.known(self.config)
            longest = sorted(self._left_to_run(), key=lambda unit: -took.get(unit[0], 0.0))
            self.workqueue = OrderedDict(longest)
            self._ordered = True
        if not self.workqueue:
            return  # fewer units than workers, once those that need not run are out
        try:
            super()._assign_work_unit(node)
        except OSError:
            # It is dead, and its end has not been told yet: what it could not be given goes back.
            scope, unit = self.assigned_work[node].popitem()
            self.workqueue[scope] = unit
            self.workqueue.move_to_end(scope, last=False)
            self._unreachable.add(node)

    def _left_to_run(self) -> Iterator[tuple[str, dict[str, bool]]]:
        """The units without the tests that need not run."""
        there = known(self.config)
        for scope, tests in self.workqueue.items():
            if left := {nodeid: done for nodeid, done in tests.items() if nodeid not in there}:
                yield scope, left

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """Mark a test; a unit that is done is forgotten: xdist goes through all that a worker has
        had at each test, to count what is left."""
        super().mark_test_complete(node, item_index, duration)
        units = self.assigned_work[node]
        unit = self._split_scope(self.registered_collections[node][item_index])
        if all(units[unit].values()):
            del units[unit]

    def remove_node(self, node: WorkerController) -> str | None:
        """Take a worker out; the test it died in counts as done, the others go back.

        Returns:
            The test that was running, or None when nothing was.
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
            # Dead; or started for one that died, and has not collected yet: it is asked again then.
            return
        super()._reschedule(node)
        while (
            self.workqueue
            and not node.shutting_down
            and node not in self._unreachable
            and self._pending_of(self.assigned_work[node]) < _ENOUGH
        ):
            self._assign_work_unit(node)
        if not self.workqueue:
            # Without more to come a worker must not wait for a next test.
            super()._reschedule(node)
