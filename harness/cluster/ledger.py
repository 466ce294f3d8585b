"""Tracks the cells of a run on a cluster: waiting, sent, ended, lost.

Uses neither Dask nor pytest: callers record events, and get the items to send and the cells that
have ended.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from harness.cluster.placement import RemoteWorker, find_best_labels, group_cells

# Units per slot: the next one is sent while one runs, so that slots never wait for the session.
_UNITS_PER_SLOT = 2
# A cell that ends its process this often is recorded as crashed.
_MAX_ATTEMPTS = 2
# A unit is abandoned after this many refusals, or losses before one of its cells began.
_MAX_REFUSALS, _MAX_LOSSES = 5, 50


@dataclass(frozen=True)
class WorkItem:
    """Cells of one case that wait for a worker.

    Attributes:
        file: module of the suite, relative to the root.
        case: name of the case.
        cells: ids.
        seconds: expected duration, 0 if unknown.
        memory: memory limit of one cell in GiB.
        avoid: names of workers that lost or refused the item.
        returned: number of returns for which no cell was at fault.
    """

    file: str
    case: str
    cells: tuple[str, ...]
    seconds: float = 0.0
    memory: float = 0.0
    avoid: frozenset[str] = frozenset()
    returned: int = 0


@dataclass
class SentItem:
    """A work item that was sent to a worker.

    Attributes:
        item: the work item.
        needed: resources that the worker must have.
        running: the running cell, if known.
        worker: name of the worker, if known.
        open: cells that have not ended.
    """

    item: WorkItem
    needed: frozenset[str]
    running: str | None = None
    worker: str = ""
    open: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True)
class LossResult:
    """Consequence of a lost process, a lost worker or a refusal.

    Attributes:
        dead: cell that ended by it, or None.
        abandoned: cells that will not run.
        reason: why not.
    """

    dead: str | None = None
    abandoned: tuple[str, ...] = ()
    reason: str = ""


class Ledger:
    """State of all cells of a run.

    Attributes:
        attempts: failed attempts by cell, a sentence each.
    """

    def __init__(self, items: Sequence[WorkItem]) -> None:
        self.attempts: dict[str, list[str]] = defaultdict(list)
        self._numbers = itertools.count()
        self._sent_items: dict[str, SentItem] = {}
        self._ended: set[str] = set()
        self._planned_labels: tuple[frozenset[str], ...] | None = None
        self._waiting: dict[frozenset[str], list[tuple[float, int, WorkItem]]] = {}
        self._unplanned = list(items)

    @property
    def is_over(self) -> bool:
        """Whether no cell waits and no item is sent."""
        return not (self._sent_items or self._unplanned or any(self._waiting.values()))

    @property
    def sent_items(self) -> dict[str, SentItem]:
        """Sent items by key."""
        return self._sent_items

    def take_sendable(self, workers: Sequence[RemoteWorker]) -> Iterator[tuple[str, SentItem]]:
        """Take the items to send now, longest first. Each counts as sent from then on.

        Args:
            workers: the available workers.
        """
        self._plan(workers)
        slots = {needed: sum(worker.slots for worker in workers if needed <= worker.labels)
                 for needed in self._waiting}  # fmt: skip
        most = _UNITS_PER_SLOT * sum(worker.slots for worker in workers)
        out: dict[frozenset[str], int] = defaultdict(int)
        for sent in self._sent_items.values():
            out[sent.needed] += 1
        while len(self._sent_items) < most:
            ready = [
                needed
                for needed, queue in self._waiting.items()
                if queue and out[needed] < _UNITS_PER_SLOT * slots[needed]
            ]
            if not ready:
                return
            needed = min(ready, key=lambda each: self._waiting[each][0])
            _, number, item = heapq.heappop(self._waiting[needed])
            out[needed] += 1
            sent = SentItem(item, needed, open=dict.fromkeys(item.cells))
            key = f"{item.case}-{number}"
            self._sent_items[key] = sent
            yield key, sent

    def record_start(self, key: str, worker: str, cell: str) -> bool:
        """Record that a worker began a cell.

        A scheduler with other settings may have moved the unit to another worker.

        Returns:
            False if the cell or its unit has ended: a worker that was considered lost may go on.
        """
        sent = self._sent_items.get(key)
        if sent is None or cell in self._ended:
            return False
        if sent.running is not None and sent.worker not in ("", worker):
            self.attempts[sent.running].append(f"{sent.worker} was lost")
        sent.running, sent.worker = cell, worker
        return True

    def record_end(self, key: str, cell: str) -> bool:
        """Record that a cell ended.

        Returns:
            Whether this is its first record: a worker that was considered lost may send another.
        """
        sent = self._sent_items.get(key)
        if sent is not None:
            sent.open.pop(cell, None)
            if sent.running == cell:
                sent.running = None
        if cell in self._ended:
            return False
        self._ended.add(cell)
        return True

    def finish_unit(self, key: str) -> list[str]:
        """Record that a worker has finished a unit.

        Returns:
            Cells of the unit without a record, which wait again.
        """
        sent = self._sent_items.pop(key, None)
        left = [] if sent is None else [cell for cell in sent.open if cell not in self._ended]
        if sent is not None and left:
            self._requeue(sent, left)
        return left

    def record_death(self, key: str, cell: str, how: str, *, final: bool) -> LossResult:
        """Record that a process died while it ran a cell.

        Args:
            key: key of the unit.
            cell: id of the cell.
            how: worker and reason, for the record.
            final: whether another attempt is useless.
        """
        sent = self._sent_items.pop(key, None)
        if sent is None:
            return LossResult()
        if cell in self._ended:  # by a worker that was considered lost
            return self._handle_return(sent, sent.worker, how, _MAX_LOSSES)
        self.attempts[cell].append(how)
        return self._handle_fault(
            sent, cell, is_over=final or len(self.attempts[cell]) >= _MAX_ATTEMPTS
        )

    def record_refusal(self, key: str, worker: str, why: str) -> LossResult:
        """Record that a worker refused the rest of a unit."""
        sent = self._sent_items.pop(key, None)
        if sent is None:
            return LossResult()
        return self._handle_return(sent, worker, why, _MAX_REFUSALS)

    def record_loss(self, key: str, how: str) -> LossResult:
        """Record that the worker of a unit is lost."""
        sent = self._sent_items.pop(key, None)
        if sent is None:
            return LossResult()
        if sent.running is None or sent.running in self._ended:
            return self._handle_return(sent, sent.worker, how, _MAX_LOSSES)
        self.attempts[sent.running].append(f"{sent.worker or 'its worker'} was lost: {how}")
        attempts = len(self.attempts[sent.running])
        return self._handle_fault(sent, sent.running, is_over=attempts >= _MAX_ATTEMPTS)

    def _handle_fault(self, sent: SentItem, cell: str, *, is_over: bool) -> LossResult:
        """Handle the end of a process or worker during a cell."""
        if is_over:
            self._ended.add(cell)
        left = [each for each in sent.open if each not in self._ended]
        if left:
            self._requeue(sent, left, avoid=sent.worker)
        return LossResult(dead=cell if is_over else None)

    def _handle_return(self, sent: SentItem, worker: str, why: str, limit: int) -> LossResult:
        left = [each for each in sent.open if each not in self._ended]
        if left and sent.item.returned >= limit:
            self._ended.update(left)
            return LossResult(abandoned=tuple(left), reason=why)
        if left:
            self._requeue(sent, left, avoid=worker, returned=sent.item.returned + 1)
        return LossResult()

    def _requeue(
        self, sent: SentItem, cells: Sequence[str], *, avoid: str = "", returned: int = 0
    ) -> None:
        item = sent.item
        avoided = item.avoid | ({avoid} if avoid else set())
        again = replace(item, cells=tuple(cells), avoid=avoided, returned=returned)
        self._unplanned.append(again)

    def _plan(self, workers: Sequence[RemoteWorker]) -> None:
        """Group waiting items by the resources they need; start over if the workers changed."""
        there = tuple(sorted({worker.labels for worker in workers}, key=sorted))
        if there != self._planned_labels:
            self._planned_labels = there
            self._unplanned += [item for queue in self._waiting.values() for *_, item in queue]
            self._waiting = {}
        if not (self._unplanned and workers):
            return
        labels = find_best_labels(workers)
        for item in self._unplanned:
            for needed, cells in group_cells(item.cells, workers, labels):
                share = item.seconds * len(cells) / len(item.cells)
                part = replace(item, cells=tuple(cells), seconds=share)
                heapq.heappush(
                    self._waiting.setdefault(needed, []), (-share, next(self._numbers), part)
                )
        self._unplanned = []
