"""A session's side of a farm: workers are looked for and looked over, units sent, and what becomes
of them told, in the order in which it arrives."""

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

from harness.cluster.connection import Answer, Connection, FarmLost
from harness.cluster.ledger import Flight, Ledger, Piece, Verdict
from harness.cluster.messages import Began, Died, Ended, Hello, Outcome, Told, Unit
from harness.cluster.placement import Place, differences
from harness.cluster.worker import HELLO
from harness.record.host import Environment
from harness.session.run_one import Asked

_LOOK_SECONDS = 2.0
# A unit's last events and its answer come on one connection; what does not come soon is lost.
_STRAGGLE_SECONDS = 5.0
_TURN_SECONDS = 0.5
# How long a worker that can run nothing is left alone.
_REST_SECONDS = 30.0


@dataclass(frozen=True)
class Started:
    """A worker took a cell."""

    cell: str
    worker: str


@dataclass(frozen=True)
class Record:
    """A cell came to its end.

    Attributes:
        cell: its id.
        record: as JSON; None where its worker was lost with it.
        claim: what it says of its limitation, as JSON.
        worker: who ran it last.
        is_dead: whether its process died, so that the record is yet to be judged.
        attempts: the tries that did not end with a record, a sentence each.
    """

    cell: str
    record: str | None
    claim: str | None
    worker: str
    is_dead: bool
    attempts: Sequence[str] = ()


@dataclass(frozen=True)
class Note:
    """What whoever watches wants to know; red where cells stay without a record."""

    text: str
    is_red: bool = False


Happening = Started | Record | Note


@dataclass(frozen=True)
class Manner:
    """How the cells of a run are run, beside what each is asked.

    Attributes:
        asked: of each.
        root: the checkout.
        cell_memory: GiB that one may hold where its case asks for no more.
        speed: whether torch is kept quick.
    """

    asked: Asked
    root: Path
    cell_memory: float
    speed: bool


class Farm:
    """The workers of a scheduler, and one run on them."""

    def __init__(
        self, connection: Connection, ours: Environment, *, mixed: bool, wait: float
    ) -> None:
        """Listen to what workers tell.

        Args:
            connection: to the scheduler.
            ours: what workers must have as well.
            mixed: take those that have not.
            wait: seconds to wait for a worker while there is none.
        """
        self._connection = connection
        self._ours, self._mixed, self._wait = ours, mixed, wait
        self._topic = f"conform-{uuid.uuid4().hex}"
        self._happened: SimpleQueue[Callable[[], Iterator[Happening]]] = SimpleQueue()
        self._seen: set[str] = set()
        self._looked = self._alone_since = 0.0
        self._deaths: dict[str, Died] = {}
        self._unfit: dict[str, float] = {}  # until when, by name
        self._ledger = Ledger(())
        self.places: list[Place] = []
        connection.listen(self._topic, self._hear)

    def gather(self) -> Iterator[Note]:
        """Wait for the first worker.

        Raises:
            FarmLost: none comes, or all differ.
        """
        end = time.monotonic() + self._wait
        while True:
            yield from self._look()
            if self.places:
                return
            if time.monotonic() > end:
                raise FarmLost(
                    f"no worker at {self._connection.address} within {self._wait:g} s that can "
                    "take part; start one in a checkout like this one with: conform worker "
                    f"{self._connection.address}"
                )
            time.sleep(0.2)

    def run(self, pieces: Sequence[Piece], manner: Manner) -> Iterator[Happening]:
        """Have workers run cells.

        Args:
            pieces: all that is to run.
            manner: how.

        Yields:
            What happens; a :class:`Record` for each cell, once, unless a red :class:`Note` says
            that nobody runs it.

        Raises:
            FarmLost: the scheduler is gone, or all workers are and none comes.
        """
        self._ledger = Ledger(pieces)
        self._alone_since = time.monotonic()
        digests: dict[str, str] = {}
        while not self._ledger.is_over:
            yield from self._look_again()
            for key, flight in self._ledger.sendable(self.places):
                file = flight.piece.file
                if file not in digests:
                    digests[file] = hashlib.sha256((manner.root / file).read_bytes()).hexdigest()
                self._send(key, flight, digests[file], manner)
            try:
                happened = self._happened.get(timeout=_TURN_SECONDS)
            except Empty:
                continue
            yield from happened()
            while not self._happened.empty():
                yield from self._happened.get()()

    def _send(self, key: str, flight: Flight, digest: str, manner: Manner) -> None:
        piece = flight.piece
        unit = Unit(
            key=key,
            topic=self._topic,
            file=piece.file,
            digest=digest,
            case=piece.case,
            cells=list(piece.cells),
            asked=manner.asked,
            cell_memory=manner.cell_memory,
            speed=manner.speed,
        )
        able = [place for place in self.places if flight.needed <= place.labels]
        # Whoever lost it is not asked again while there is somebody else.
        others = [place.address for place in able if place.name not in piece.avoid]
        most = max((place.memory for place in able), default=0.0)
        self._connection.send(
            f"{self._topic}-{key}",
            msgspec.json.encode(unit).decode(),
            {**dict.fromkeys(flight.needed, 1.0), "memory": min(piece.memory, most)},
            others if piece.avoid or self._unfit else [],
            lambda answer: self._happened.put(lambda: self._answered(key, answer)),
        )

    def _hear(self, message: Mapping[str, Any]) -> None:
        """In Dask's thread: a worker tells of a cell."""
        told = msgspec.json.decode(message["told"], type=Told)
        self._happened.put(lambda: self._told(told))

    def _told(self, told: Told) -> Iterator[Happening]:
        match event := told.event:
            case Began():
                if self._ledger.began(told.key, told.worker, event.cell):
                    yield Started(event.cell, told.worker)
            case Ended():
                tries = tuple(self._ledger.attempts.get(event.cell, ()))
                if self._ledger.ended(told.key, event.cell):
                    yield Record(event.cell, event.record, event.claim, told.worker, False, tries)
            case Died():
                self._deaths[told.key] = event

    def _answered(self, key: str, answer: Answer) -> Iterator[Happening]:
        """A unit has its answer, or its worker is lost."""
        flight = self._ledger.flights.get(key)
        if flight is None:
            return
        if answer.text is None:
            if not self._connection.is_alive:
                raise FarmLost(f"the scheduler at {self._connection.address} is gone")
            who = flight.worker or "a worker"
            yield Note(f"{who} was lost with {flight.piece.case}: {answer.problem}")
            yield from self._judged(self._ledger.lost(key, answer.problem), flight, None)
            return
        outcome = msgspec.json.decode(answer.text, type=Outcome)
        yield from self._stragglers(flight, outcome, key)
        if outcome.died is not None:
            death = self._deaths.pop(key, None)
            how = f"{flight.worker}: {_error_of(death)}"
            is_final = death is not None and death.final
            verdict = self._ledger.died(key, outcome.died, how, final=is_final)
            yield from self._judged(verdict, flight, death)
        elif outcome.refused:
            yield Note(f"{outcome.worker} does not run {flight.piece.case}: {outcome.refused}")
            if outcome.unfit:
                self._unfit[outcome.worker] = time.monotonic() + _REST_SECONDS
                self.places = [place for place in self.places if place.name not in self._unfit]
            verdict = self._ledger.refused(key, outcome.worker, outcome.refused)
            yield from self._judged(verdict, flight, None)
        else:
            self._ledger.finished(key)

    def _stragglers(self, flight: Flight, outcome: Outcome, key: str) -> Iterator[Happening]:
        """What was told of a unit before its answer, and may come after it."""
        end = time.monotonic() + _STRAGGLE_SECONDS
        while time.monotonic() < end and (
            any(cell in flight.open for cell in outcome.ended)
            or (outcome.died is not None and key not in self._deaths)
        ):
            try:
                yield from self._happened.get(timeout=0.1)()
            except Empty:
                continue

    def _judged(self, verdict: Verdict, flight: Flight, death: Died | None) -> Iterator[Happening]:
        if (cell := verdict.dead) is not None:
            yield Record(
                cell,
                None if death is None else death.record,
                None,
                flight.worker,
                death is None or not death.judged,
                tuple(self._ledger.attempts[cell]),
            )
        if verdict.abandoned:
            names = ", ".join(verdict.abandoned)
            yield Note(f"no worker runs {names}: {verdict.reason}", is_red=True)

    def _look_again(self) -> Iterator[Note]:
        """Every now and then: who is there, and what waits for somebody who is not."""
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return
        yield from self._look()
        there = [place.labels for place in self.places]
        if there:
            self._alone_since = time.monotonic()
            for key, flight in self._ledger.flights.items():
                if flight.running is None and not any(flight.needed <= each for each in there):
                    self._connection.cancel(f"{self._topic}-{key}")
        elif time.monotonic() - self._alone_since > self._wait:
            raise FarmLost(
                f"all workers at {self._connection.address} are gone, and none came within "
                f"{self._wait:g} s"
            )

    def _look(self) -> Iterator[Note]:
        """See which workers there are; those that may not take part are named once."""
        self._looked = now = time.monotonic()
        self._unfit = {name: until for name, until in self._unfit.items() if until > now}
        places = []
        for address, about in self._connection.workers().items():
            name = str(about["name"])
            hello, problems = None, ["it is none of conform's; start it with: conform worker"]
            if HELLO in about:
                hello = msgspec.json.decode(about[HELLO], type=Hello)
                problems = differences(self._ours, hello.environment)
            takes_part = hello is not None and (self._mixed or not problems)
            if hello is not None and takes_part and name not in self._unfit:
                memory = float(about["resources"].get("memory", 0))
                places.append(Place(address, name, about["nthreads"], memory, hello))
            if problems and name not in self._seen:
                fate = "takes part all the same" if takes_part else "is refused"
                hint = "" if self._mixed or hello is None else " (--mixed takes it as it is)"
                yield Note(f"worker {name} {fate}: {'; '.join(problems)}{hint}")
            self._seen.add(name)
        self.places = places


def _error_of(death: Died | None) -> str:
    if death is None:
        return "its process died"
    return str(msgspec.json.decode(death.record).get("error") or "its process died")
