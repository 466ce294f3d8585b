"""What of a run waits, what is with workers, and what becomes of cells whose worker is lost.

It knows neither Dask nor pytest: it is told what happened, and says what is to be sent and which
cells have come to an end.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from harness.cluster.placement import Place, best, groups

# A slot is sent its next unit while it runs one, so that it never waits for the client.
_AHEAD = 2
# A cell is tried so often before it is its own fault.
_TRIES = 2
# A unit that workers refuse, or that is lost with them before a cell of it began, is given up after
# so many times.
_PATIENCE, _PATIENCE_WITH_LOSSES = 5, 50


@dataclass(frozen=True)
class Piece:
    """Cells of one case that were not sent, or came back.

    Attributes:
        file: the suite's module, relative to the root.
        case: name of the case.
        cells: ids.
        seconds: how long they take, where that is known.
        memory: GiB that one of them may hold.
        avoid: names of workers that lost or refused it.
        returned: how often it came back without a cell to blame.
    """

    file: str
    case: str
    cells: tuple[str, ...]
    seconds: float = 0.0
    memory: float = 0.0
    avoid: frozenset[str] = frozenset()
    returned: int = 0


@dataclass
class Flight:
    """A piece that is with a worker.

    Attributes:
        piece: what was sent.
        needed: the resources that it was sent for.
        running: the cell under way, as far as is known.
        worker: who runs it, as far as is known.
        open: its cells that have not ended.
    """

    piece: Piece
    needed: frozenset[str]
    running: str | None = None
    worker: str = ""
    open: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """What came of a loss.

    Attributes:
        dead: the cell that came to its end by it, or None.
        abandoned: cells that nobody will run, and why.
    """

    dead: str | None = None
    abandoned: tuple[str, ...] = ()
    reason: str = ""


class Ledger:
    """The bookkeeping of a run.

    Attributes:
        attempts: by cell, the tries that did not end with a record of its own, a sentence each.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.attempts: dict[str, list[str]] = defaultdict(list)
        self._numbers = itertools.count()
        self._flights: dict[str, Flight] = {}
        self._ended: set[str] = set()
        self._planned_for: tuple[frozenset[str], ...] | None = None
        self._waiting: dict[frozenset[str], list[tuple[float, int, Piece]]] = {}
        self._unplanned = list(pieces)

    @property
    def is_over(self) -> bool:
        """Whether nothing waits and nothing is with a worker."""
        return not (self._flights or self._unplanned or any(self._waiting.values()))

    @property
    def flights(self) -> dict[str, Flight]:
        """What is with workers, by key."""
        return self._flights

    def sendable(self, places: Sequence[Place]) -> Iterator[tuple[str, Flight]]:
        """What is to be sent now, the longest first; each counts as sent from then on.

        Args:
            places: the workers that there are.
        """
        self._plan(places)
        slots = {needed: sum(place.slots for place in places if needed <= place.labels)
                 for needed in self._waiting}  # fmt: skip
        most = _AHEAD * sum(place.slots for place in places)
        out: dict[frozenset[str], int] = defaultdict(int)
        for flight in self._flights.values():
            out[flight.needed] += 1
        while len(self._flights) < most:
            ready = [
                needed
                for needed, queue in self._waiting.items()
                if queue and out[needed] < _AHEAD * slots[needed]
            ]
            if not ready:
                return
            needed = min(ready, key=lambda each: self._waiting[each][0])
            _, number, piece = heapq.heappop(self._waiting[needed])
            out[needed] += 1
            flight = Flight(piece, needed, open=dict.fromkeys(piece.cells))
            key = f"{piece.case}-{number}"
            self._flights[key] = flight
            yield key, flight

    def began(self, key: str, worker: str, cell: str) -> bool:
        """A worker took a cell. A scheduler that is not ours may have given the unit to another
        worker, after it lost the first.

        Returns:
            Whether that counts: a worker that was taken for lost goes on with what others have.
        """
        flight = self._flights.get(key)
        if flight is None or cell in self._ended:
            return False
        if flight.running is not None and flight.worker not in ("", worker):
            self.attempts[flight.running].append(f"{flight.worker} was lost")
        flight.running, flight.worker = cell, worker
        return True

    def ended(self, key: str, cell: str) -> bool:
        """A cell has a record.

        Returns:
            Whether it is its first: a worker that was taken for lost may send another.
        """
        flight = self._flights.get(key)
        if flight is not None:
            flight.open.pop(cell, None)
            if flight.running == cell:
                flight.running = None
        if cell in self._ended:
            return False
        self._ended.add(cell)
        return True

    def finished(self, key: str) -> list[str]:
        """A worker has answered a unit.

        Returns:
            Its cells without a record, which wait again.
        """
        flight = self._flights.pop(key, None)
        left = [] if flight is None else [cell for cell in flight.open if cell not in self._ended]
        if flight is not None and left:
            self._again(flight, left)
        return left

    def died(self, key: str, cell: str, how: str, *, final: bool) -> Verdict:
        """A cell ended its process.

        Args:
            key: of its unit.
            cell: the one.
            how: the process and its end, for the record.
            final: whether another try would tell no more.
        """
        flight = self._flights.pop(key, None)
        if flight is None:
            return Verdict()
        if cell in self._ended:  # by a worker that was taken for lost
            return self._returned(flight, flight.worker, how, _PATIENCE_WITH_LOSSES)
        self.attempts[cell].append(how)
        return self._blamed(flight, cell, is_over=final or len(self.attempts[cell]) >= _TRIES)

    def refused(self, key: str, worker: str, why: str) -> Verdict:
        """A worker does not run a unit, or no more of it."""
        flight = self._flights.pop(key, None)
        if flight is None:
            return Verdict()
        return self._returned(flight, worker, why, _PATIENCE)

    def lost(self, key: str, how: str) -> Verdict:
        """The worker of a unit is gone, and nobody knows more."""
        flight = self._flights.pop(key, None)
        if flight is None:
            return Verdict()
        if flight.running is None or flight.running in self._ended:
            return self._returned(flight, flight.worker, how, _PATIENCE_WITH_LOSSES)
        self.attempts[flight.running].append(f"{flight.worker or 'its worker'} was lost: {how}")
        tries = len(self.attempts[flight.running])
        return self._blamed(flight, flight.running, is_over=tries >= _TRIES)

    def _blamed(self, flight: Flight, cell: str, *, is_over: bool) -> Verdict:
        """A cell was under way as its process or worker ended."""
        if is_over:
            self._ended.add(cell)
        left = [each for each in flight.open if each not in self._ended]
        if left:
            self._again(flight, left, avoid=flight.worker)
        return Verdict(dead=cell if is_over else None)

    def _returned(self, flight: Flight, worker: str, why: str, patience: int) -> Verdict:
        left = [each for each in flight.open if each not in self._ended]
        if left and flight.piece.returned >= patience:
            self._ended.update(left)
            return Verdict(abandoned=tuple(left), reason=why)
        if left:
            self._again(flight, left, avoid=worker, returned=flight.piece.returned + 1)
        return Verdict()

    def _again(
        self, flight: Flight, cells: Sequence[str], *, avoid: str = "", returned: int = 0
    ) -> None:
        piece = flight.piece
        avoided = piece.avoid | ({avoid} if avoid else set())
        again = replace(piece, cells=tuple(cells), avoid=avoided, returned=returned)
        self._unplanned.append(again)

    def _plan(self, places: Sequence[Place]) -> None:
        """Sort what waits by what it needs, anew where other workers are there."""
        there = tuple(sorted({place.labels for place in places}, key=sorted))
        if there != self._planned_for:
            self._planned_for = there
            self._unplanned += [piece for queue in self._waiting.values() for *_, piece in queue]
            self._waiting = {}
        if not (self._unplanned and places):
            return
        labels = best(places)
        for piece in self._unplanned:
            for needed, cells in groups(piece.cells, places, labels):
                share = piece.seconds * len(cells) / len(piece.cells)
                part = replace(piece, cells=tuple(cells), seconds=share)
                heapq.heappush(
                    self._waiting.setdefault(needed, []), (-share, next(self._numbers), part)
                )
        self._unplanned = []
