"""What the process that checks is asked, and what it tells: lines of JSON. Imports no torch."""

from __future__ import annotations

import msgspec

from harness.record.run import BackendState

WORKER = "check"
"""Under which name the process that checks is on the board."""


class Request(msgspec.Struct, kw_only=True):
    """A check.

    ``source`` and ``passes`` are spelled as on the command line, ``inputs`` are files, ``programs``
    is the folder that gets them; ``trace`` asks to look for the first node at which a mismatch
    arises however long that takes; ``past_defects`` asks for all known defects of a program;
    ``board`` is a folder in which to say what is done (:mod:`harness.workers.worker_status`),
    ``budget`` the bytes that a cell may hold; ``done`` names cells that are not to be run again;
    ``crashed`` are records of cells that ended an earlier process while they were executed, and
    whose node is to be found.
    """

    source: str
    inputs: list[str] = []
    targets: str | None = None
    seed: int = 0
    dynamic: list[str] = []
    passes: list[str] = []
    programs: str | None = None
    speed: bool = True
    trace: bool = False
    past_defects: bool = True
    board: str = ""
    budget: int = 0
    done: list[str] = []
    crashed: list[str] = []


class Planned(msgspec.Struct, tag=True):
    """The model is there: its cells, what is to be known of them, what backends say."""

    cells: list[str]
    notes: list[str]
    backends: dict[str, BackendState]


class Began(msgspec.Struct, tag=True):
    """A cell is under way; ``printed`` is the length of the log before it."""

    cell: str
    printed: int = 0


class Lowered(msgspec.Struct, tag=True):
    """The cell under way has a program, and is executed next: ``record`` is what is known of it."""

    record: str


class Locating(msgspec.Struct, tag=True):
    """The search for the node of a crashed cell begins: what follows belongs to it."""

    cell: str


class Reached(msgspec.Struct, tag=True):
    """The cell under way has begun a stage."""

    stage: str


class Ended(msgspec.Struct, tag=True):
    """A cell has ended; ``record`` is the line of JSON that it is."""

    record: str


class Traced(msgspec.Struct, tag=True):
    """The cell that ended last is wrong or failed, and was traced.

    ``found`` is the :class:`harness.tracing.trace_result.Found`, in MessagePack, which has
    infinities; without one, ``problem`` says why.
    """

    cell: str
    found: bytes | None = None
    problem: str = ""


class Refused(msgspec.Struct, tag=True):
    """Nothing can be run, and why."""

    message: str


class Finished(msgspec.Struct, tag=True):
    """All cells have ended."""


Event = Planned | Began | Lowered | Locating | Reached | Ended | Traced | Refused | Finished

decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
