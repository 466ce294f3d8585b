"""What client, workers and their processes say to each other: plain data, no code. Imports no torch
and no Dask."""

from __future__ import annotations

import msgspec

from harness.record.host import Environment
from harness.record.run import BackendState
from harness.session.run_one import Asked


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """Cells of one case that one process runs one after the other, so that they share its export.

    Attributes:
        key: its name among all units of all runs.
        topic: where its worker tells what becomes of it.
        file: the suite's module, relative to the root of the checkout.
        digest: SHA-256 of that file, of which the worker must have the same.
        case: the name of the case.
        cells: ids of its cells.
        asked: what the session asks of each.
        cell_memory: GiB that a cell may hold where its case asks for no more.
        speed: whether torch is kept quick.
    """

    key: str
    topic: str
    file: str
    digest: str
    case: str
    cells: list[str]
    asked: Asked
    cell_memory: float = 3.0
    speed: bool = True


class Hello(msgspec.Struct, frozen=True, tag=True):
    """What a worker is: told once, when its first process has loaded the vendors.

    Attributes:
        environment: host, packages, checkout.
        backends: what they say of themselves.
        delegates: by backend, the name that programs ask for it by, where that is another.
        slow: the parts of :mod:`harness.pipeline.speed` that it goes without, and why.
        gone: private names of vendors that it did not find.
    """

    environment: Environment
    backends: dict[str, BackendState]
    delegates: dict[str, str] = {}
    slow: dict[str, str] = {}
    gone: dict[str, str] = {}


class Began(msgspec.Struct, frozen=True, tag=True):
    """A cell is under way."""

    cell: str
    stage: str = ""


class Ended(msgspec.Struct, frozen=True, tag=True):
    """A cell has its record: JSON, as is what it says of the limitation that speaks of it."""

    cell: str
    record: str
    claim: str | None = None


class Died(msgspec.Struct, frozen=True, tag=True):
    """A process ended in the middle of a cell.

    Attributes:
        cell: the one.
        record: what is known of it, as JSON.
        judged: whether that is its own record, which was there before the process ended.
        final: whether another try would tell no more: it took too long or too much memory.
    """

    cell: str
    record: str
    judged: bool = False
    final: bool = False


class Refused(msgspec.Struct, frozen=True, tag=True):
    """A unit that this worker will not or cannot run, and why; another may."""

    message: str


class Finished(msgspec.Struct, frozen=True, tag=True):
    """All cells of a unit were told of."""


Event = Hello | Began | Ended | Died | Refused | Finished

decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker answers to a unit, beside what it told meanwhile.

    Attributes:
        ended: the cells of which it told a record.
        died: the cell in the middle of which its process ended.
        refused: why it ran nothing, or stopped.
        unfit: whether it would refuse any other as well.
        worker: its name.
    """

    ended: list[str] = []
    died: str | None = None
    refused: str = ""
    unfit: bool = False
    worker: str = ""


class Told(msgspec.Struct, frozen=True):
    """An event on its way to the client: of which unit, and by which worker."""

    key: str
    worker: str
    event: Began | Ended | Died
