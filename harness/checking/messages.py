"""Request and events of the worker process of a check, as lines of JSON. Imports no torch."""

from __future__ import annotations

import msgspec

from harness.record.run import BackendState

WORKER = "check"
"""The name of the worker process on the status board."""


class CheckRequest(msgspec.Struct, kw_only=True):
    """Request to check a model.

    Attributes:
        source: the model, spelled as on the command line.
        inputs: files of inputs.
        targets: list of targets; None for the targets of a plain run.
        seed: run seed.
        dynamic: values of ``--dynamic``.
        passes: graph passes, spelled as on the command line.
        programs: folder to write the programs to.
        speed: use the speed parts.
        trace: trace red cells without a time limit.
        past_defects: list all known defects of a program.
        board: folder of the status board (:mod:`harness.workers.worker_status`).
        budget: bytes of memory that a cell may use.
        done: ids of cells that are not run again.
        crashed: records of cells that ended an earlier process during execution; their failing
            nodes are searched.
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


class CellsPlanned(msgspec.Struct, tag=True):
    """The model is loaded: ids of its cells, notes for the user, availability of the backends."""

    cells: list[str]
    notes: list[str]
    backends: dict[str, BackendState]


class CellStarted(msgspec.Struct, tag=True):
    """A cell started; ``printed`` is the length of the log in bytes before it."""

    cell: str
    printed: int = 0


class ProgramLowered(msgspec.Struct, tag=True):
    """The running cell has its program and is executed next; ``record`` is its record so far."""

    record: str


class NodeSearchStarted(msgspec.Struct, tag=True):
    """The search for the failing node of a crashed cell started."""

    cell: str


class StageStarted(msgspec.Struct, tag=True):
    """The running cell started a stage."""

    stage: str


class CellEnded(msgspec.Struct, tag=True):
    """A cell ended; ``record`` is its record, a line of JSON."""

    record: str


class CellTraced(msgspec.Struct, tag=True):
    """A red cell was traced.

    ``found`` is the :class:`harness.tracing.trace_result.Found` in MessagePack, which supports
    infinities. It is None if tracing failed; then ``problem`` says why.
    """

    cell: str
    found: bytes | None = None
    problem: str = ""


class CheckRefused(msgspec.Struct, tag=True):
    """The check cannot run; ``message`` says why."""

    message: str


class CheckFinished(msgspec.Struct, tag=True):
    """All cells ended."""


Event = (
    CellsPlanned
    | CellStarted
    | ProgramLowered
    | NodeSearchStarted
    | StageStarted
    | CellEnded
    | CellTraced
    | CheckRefused
    | CheckFinished
)

decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
