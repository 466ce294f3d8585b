"""Messages between session, workers and their processes: plain data, no code.

Imports neither torch nor Dask.
"""

from __future__ import annotations

import msgspec

from harness.record.host import Environment
from harness.record.run import BackendState
from harness.session.run_one import CellRequest
from harness.workers.protocol import CellEnded, CellEvent, CellStarted, Outcome


class WorkUnit(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Cells of one case that one process runs in sequence, so that they share one export.

    Attributes:
        key: name of the unit, unique among all runs.
        topic: Dask topic on which the worker reports events of the unit.
        file: module of the suite, relative to the root of the checkout.
        digest: SHA-256 of that file; the worker's file must have the same.
        case: name of the case.
        cells: ids of the cells.
        asked: settings of the session for each cell.
        cell_memory: memory limit of a cell in GiB, unless its case needs more.
        speed: whether the speed parts are installed.
    """

    key: str
    topic: str
    file: str
    digest: str
    case: str
    cells: list[str]
    asked: CellRequest
    cell_memory: float = 3.0
    speed: bool = True


class WorkerInfo(msgspec.Struct, frozen=True, tag=True):
    """Description of a worker; its first process sends it after it has loaded the backends.

    Attributes:
        environment: host, packages, checkout.
        backends: state of each backend.
        delegates: id of the delegate in programs by backend, where it differs from the backend.
        slow: parts of :mod:`harness.pipeline.speed` that are not installed, and why.
        gone: private names of vendors that do not exist.
    """

    environment: Environment
    backends: dict[str, BackendState]
    delegates: dict[str, str] = {}
    slow: dict[str, str] = {}
    gone: dict[str, str] = {}


class CellDied(msgspec.Struct, frozen=True, tag=True):
    """A process died while it ran a cell.

    Attributes:
        cell: id of the cell.
        record: incomplete record of the cell, as JSON.
        judged: whether the record was complete before the process died.
        final: whether another try is useless: the cell exceeded its time or memory limit.
    """

    cell: str
    record: str
    judged: bool = False
    final: bool = False


ProcessMessage = WorkerInfo | CellEvent | Outcome
"""Messages of the process of a slot."""


class UnitResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a unit; the worker reported its cells before.

    Attributes:
        ended: cells whose record was reported.
        died: cell during which the process died.
        refused: why the worker ran nothing, or stopped.
        unfit: whether the worker would refuse every unit.
        worker: name of the worker.
    """

    ended: list[str] = []
    died: str | None = None
    refused: str = ""
    unfit: bool = False
    worker: str = ""


class UnitEvent(msgspec.Struct, frozen=True):
    """An event of a unit, with the name of the worker that reports it."""

    key: str
    worker: str
    event: CellStarted | CellEnded | CellDied
