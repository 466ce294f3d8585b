"""Client of a cluster: finds workers, sends units of work and yields their events in order."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import msgspec

from harness.cluster.connection import Answer, ClusterLost, Connection
from harness.cluster.ledger import Ledger, LossResult, SentItem, WorkItem
from harness.cluster.messages import (
    CellDied,
    UnitEvent,
    UnitResult,
    WorkerInfo,
    WorkUnit,
)
from harness.cluster.placement import RemoteWorker, describe_differences
from harness.cluster.worker import INFO_KEY
from harness.record.host import Environment
from harness.session.run_one import CellRequest
from harness.workers.protocol import CellEnded, CellStarted

_LOOK_SECONDS = 2.0
# Events of a unit may arrive after its result; later ones are lost.
_LATE_EVENT_SECONDS = 5.0
_POLL_SECONDS = 0.5
# A worker that cannot run anything gets no work for this long.
_REST_SECONDS = 30.0


@dataclass(frozen=True)
class ClusterCellStarted:
    """A worker began a cell."""

    cell: str
    worker: str


@dataclass(frozen=True)
class ClusterCellEnded:
    """A cell ended.

    Attributes:
        cell: id of the cell.
        record: record as JSON; None if its worker was lost.
        claim: claim about its known issue, as JSON.
        worker: name of the worker that ran it last.
        is_dead: whether its process died, so that its status is not decided yet.
        attempts: earlier failed attempts, a sentence each.
    """

    cell: str
    record: str | None
    claim: str | None
    worker: str
    is_dead: bool
    attempts: Sequence[str] = ()


@dataclass(frozen=True)
class ClusterNotice:
    """A line for the user; red if cells stay without a record."""

    text: str
    is_red: bool = False


ClusterEvent = ClusterCellStarted | ClusterCellEnded | ClusterNotice


@dataclass(frozen=True)
class UnitSettings:
    """Settings of all units of a run.

    Attributes:
        asked: settings of the session for each cell.
        root: root of the checkout.
        cell_memory: memory limit of a cell in GiB, unless its case needs more.
        speed: whether the speed parts are installed.
    """

    asked: CellRequest
    root: Path
    cell_memory: float
    speed: bool


class ClusterSession:
    """The workers of a scheduler, and one run on them."""

    def __init__(
        self, connection: Connection, ours: Environment, *, mixed: bool, wait: float
    ) -> None:
        """Subscribe to the events of the workers.

        Args:
            connection: connection to the scheduler.
            ours: packages and checkout that workers must have.
            mixed: whether to accept workers that differ.
            wait: seconds to wait while there is no worker.
        """
        self._connection = connection
        self._ours, self._mixed, self._wait = ours, mixed, wait
        self._topic = f"conform-{uuid.uuid4().hex}"
        self._queue: SimpleQueue[Callable[[], Iterator[ClusterEvent]]] = SimpleQueue()
        self._reported: set[str] = set()
        self._looked = self._alone_since = 0.0
        self._deaths: dict[str, CellDied] = {}
        self._unfit: dict[str, float] = {}  # until when, by name
        self._ledger = Ledger(())
        self.workers: list[RemoteWorker] = []
        connection.listen(self._topic, self._queue_event)

    def gather(self) -> Iterator[ClusterNotice]:
        """Wait for the first worker.

        Raises:
            ClusterLost: there is no worker, or all of them differ.
        """
        end = time.monotonic() + self._wait
        while True:
            yield from self._look()
            if self.workers:
                return
            if time.monotonic() > end:
                raise ClusterLost(
                    f"no usable worker at {self._connection.address} within {self._wait:g} s; "
                    "start one in a checkout like this one with: conform cluster worker "
                    f"{self._connection.address}"
                )
            time.sleep(0.2)

    def run(self, items: Sequence[WorkItem], unit_settings: UnitSettings) -> Iterator[ClusterEvent]:
        """Run cells on the workers.

        Args:
            items: all cells to run.
            unit_settings: settings of all units.

        Yields:
            Events; one :class:`ClusterCellEnded` for each cell, or a red :class:`ClusterNotice`
            that names the cell.

        Raises:
            ClusterLost: the scheduler is lost, or all workers are.
        """
        self._ledger = Ledger(items)
        self._alone_since = time.monotonic()
        digests: dict[str, str] = {}
        while not self._ledger.is_over:
            yield from self._look_periodically()
            for key, sent in self._ledger.take_sendable(self.workers):
                file = sent.item.file
                if file not in digests:
                    digests[file] = hashlib.sha256(
                        (unit_settings.root / file).read_bytes()
                    ).hexdigest()
                self._send(key, sent, digests[file], unit_settings)
            try:
                handle = self._queue.get(timeout=_POLL_SECONDS)
            except Empty:
                continue
            yield from handle()
            while not self._queue.empty():
                yield from self._queue.get()()

    def _send(self, key: str, sent: SentItem, digest: str, unit_settings: UnitSettings) -> None:
        item = sent.item
        unit = WorkUnit(
            key=key,
            topic=self._topic,
            file=item.file,
            digest=digest,
            case=item.case,
            cells=list(item.cells),
            asked=unit_settings.asked,
            cell_memory=unit_settings.cell_memory,
            speed=unit_settings.speed,
        )
        capable = [worker for worker in self.workers if sent.needed <= worker.labels]
        # Prefer workers that have not lost the unit.
        others = [worker.address for worker in capable if worker.name not in item.avoid]
        most = max((worker.memory for worker in capable), default=0.0)
        self._connection.send(
            f"{self._topic}-{key}",
            msgspec.json.encode(unit).decode(),
            {**dict.fromkeys(sent.needed, 1.0), "memory": min(item.memory, most)},
            others if item.avoid or self._unfit else [],
            lambda answer: self._queue.put(lambda: self._handle_answer(key, answer)),
        )

    def _queue_event(self, message: Mapping[str, Any]) -> None:
        """Queue an event of a worker; runs in a thread of Dask."""
        event = msgspec.json.decode(message["event"], type=UnitEvent)
        self._queue.put(lambda: self._handle_event(event))

    def _handle_event(self, unit_event: UnitEvent) -> Iterator[ClusterEvent]:
        match event := unit_event.event:
            case CellStarted():
                if self._ledger.record_start(unit_event.key, unit_event.worker, event.cell):
                    yield ClusterCellStarted(event.cell, unit_event.worker)
            case CellEnded():
                attempts = tuple(self._ledger.attempts.get(event.cell, ()))
                if self._ledger.record_end(unit_event.key, event.cell):
                    yield ClusterCellEnded(
                        event.cell, event.record, event.claim, unit_event.worker, False, attempts
                    )
            case CellDied():
                self._deaths[unit_event.key] = event

    def _handle_answer(self, key: str, answer: Answer) -> Iterator[ClusterEvent]:
        """Handle the result of a unit, or the loss of its worker."""
        sent = self._ledger.sent_items.get(key)
        if sent is None:
            return
        if answer.text is None:
            if not self._connection.is_alive:
                raise ClusterLost(f"the scheduler at {self._connection.address} is gone")
            name = sent.worker or "a worker"
            yield ClusterNotice(f"{name} was lost with {sent.item.case}: {answer.problem}")
            yield from self._report_loss(self._ledger.record_loss(key, answer.problem), sent, None)
            return
        result = msgspec.json.decode(answer.text, type=UnitResult)
        yield from self._late_events(sent, result, key)
        if result.died is not None:
            death = self._deaths.pop(key, None)
            how = f"{sent.worker}: {_error_of(death)}"
            is_final = death is not None and death.final
            loss = self._ledger.record_death(key, result.died, how, final=is_final)
            yield from self._report_loss(loss, sent, death)
        elif result.refused:
            yield ClusterNotice(f"{result.worker} does not run {sent.item.case}: {result.refused}")
            if result.unfit:
                self._unfit[result.worker] = time.monotonic() + _REST_SECONDS
                self.workers = [worker for worker in self.workers if worker.name not in self._unfit]
            loss = self._ledger.record_refusal(key, result.worker, result.refused)
            yield from self._report_loss(loss, sent, None)
        else:
            self._ledger.finish_unit(key)

    def _late_events(self, sent: SentItem, result: UnitResult, key: str) -> Iterator[ClusterEvent]:
        """Yield events that the worker sent before the result, and that arrive after it."""
        end = time.monotonic() + _LATE_EVENT_SECONDS
        while time.monotonic() < end and (
            any(cell in sent.open for cell in result.ended)
            or (result.died is not None and key not in self._deaths)
        ):
            try:
                yield from self._queue.get(timeout=0.1)()
            except Empty:
                continue

    def _report_loss(
        self, loss: LossResult, sent: SentItem, death: CellDied | None
    ) -> Iterator[ClusterEvent]:
        if (cell := loss.dead) is not None:
            yield ClusterCellEnded(
                cell,
                None if death is None else death.record,
                None,
                sent.worker,
                death is None or not death.judged,
                tuple(self._ledger.attempts[cell]),
            )
        if loss.abandoned:
            names = ", ".join(loss.abandoned)
            yield ClusterNotice(f"no worker runs {names}: {loss.reason}", is_red=True)

    def _look_periodically(self) -> Iterator[ClusterNotice]:
        """Look for workers periodically; cancel units that no present worker can run."""
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return
        yield from self._look()
        labels = [worker.labels for worker in self.workers]
        if labels:
            self._alone_since = time.monotonic()
            for key, sent in self._ledger.sent_items.items():
                if sent.running is None and not any(sent.needed <= each for each in labels):
                    self._connection.cancel(f"{self._topic}-{key}")
        elif time.monotonic() - self._alone_since > self._wait:
            raise ClusterLost(
                f"all workers at {self._connection.address} are gone, and none came within "
                f"{self._wait:g} s"
            )

    def _look(self) -> Iterator[ClusterNotice]:
        """Update the list of workers; report each refused worker once."""
        self._looked = now = time.monotonic()
        self._unfit = {name: until for name, until in self._unfit.items() if until > now}
        workers = []
        for address, about in self._connection.workers().items():
            name = str(about["name"])
            info, problems = None, ["it was not started with: conform cluster worker"]
            if INFO_KEY in about:
                info = msgspec.json.decode(about[INFO_KEY], type=WorkerInfo)
                problems = describe_differences(self._ours, info.environment)
            takes_part = info is not None and (self._mixed or not problems)
            if info is not None and takes_part and name not in self._unfit:
                memory = float(about["resources"].get("memory", 0))
                workers.append(RemoteWorker(address, name, about["nthreads"], memory, info))
            if problems and name not in self._reported:
                status = "is accepted" if takes_part else "is refused"
                hint = "" if self._mixed or info is None else " (accept with --allow-mixed-workers)"
                yield ClusterNotice(f"worker {name} {status}: {'; '.join(problems)}{hint}")
            self._reported.add(name)
        self.workers = workers


def _error_of(death: CellDied | None) -> str:
    if death is None:
        return "its process died"
    return str(msgspec.json.decode(death.record).get("error") or "its process died")
