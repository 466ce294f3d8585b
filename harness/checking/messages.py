"""Request and events of the worker process of a check. Imports no torch."""

from __future__ import annotations

import msgspec

from harness.record.run import BackendState
from harness.workers.protocol import CellEvent, Outcome

WORKER = "check"
"""The name of the worker process in the names of its files."""

LOG = "output"
"""Name of the file for output of native code, and of models while cells run."""


class CheckRequest(msgspec.Struct, kw_only=True):
    """Request to check a model.

    Attributes:
        source: the model, spelled as on the command line.
        inputs: files of inputs.
        targets: list of targets; None for the targets of a plain run.
        vary: settings with which each target also runs.
        seed: run seed.
        dynamic: values of ``--dynamic``.
        passes: graph passes, spelled as on the command line.
        calibrate: files of inputs that calibrate a quantizer.
        keep_float: names of modules that a quantizer leaves in float.
        quality: measure which roundings of a quantizer cause the error.
        metrics: metrics, spelled as on the command line.
        reach_sqnr: find modules to leave in float to reach this SQNR.
        programs: folder to write the programs to.
        speed: use the speed parts.
        trace: trace red cells without a time limit.
        past_defects: list all known defects of a program.
        folder: folder of the status file (:mod:`harness.workers.worker_status`) and of the log.
        budget: bytes of memory that a cell may use.
        done: ids of cells that are not run again.
        crashed: records of cells that ended an earlier process during execution; their failing
            nodes are searched.
    """

    source: str
    inputs: list[str] = []
    targets: str | None = None
    vary: str = ""
    seed: int = 0
    dynamic: list[str] = []
    passes: list[str] = []
    calibrate: list[str] = []
    keep_float: list[str] = []
    quality: bool = False
    reach_sqnr: float | None = None
    metrics: list[str] = []
    programs: str | None = None
    speed: bool = True
    trace: bool = False
    past_defects: bool = True
    folder: str = ""
    budget: int = 0
    done: list[str] = []
    crashed: list[str] = []


class CellsPlanned(msgspec.Struct, frozen=True, tag=True):
    """The model is loaded: ids of its cells, notes for the user, availability of the backends."""

    cells: list[str]
    notes: list[str]
    backends: dict[str, BackendState]


class NodeSearchStarted(msgspec.Struct, frozen=True, tag=True):
    """The search for the failing node of a crashed cell started."""

    cell: str


class CellTraced(msgspec.Struct, frozen=True, tag=True):
    """A red cell was traced.

    ``found`` is the :class:`harness.tracing.trace_result.Found` in MessagePack, which supports
    infinities. It is None if tracing failed; then ``problem`` says why.
    """

    cell: str
    found: bytes | None = None
    problem: str = ""


CheckEvent = CellsPlanned | NodeSearchStarted | CellTraced | CellEvent | Outcome
