"""A Dask worker whose processes run cells of this checkout."""

from __future__ import annotations

import asyncio
import functools
import logging
from pathlib import Path
from typing import Any

import msgspec
from distributed import Worker, get_worker

from harness.cluster.messages import CellDied, UnitEvent, WorkerInfo, WorkUnit
from harness.cluster.placement import list_labels
from harness.cluster.slot import SlotPool
from harness.cluster.tls import CLOSED_HANDLERS, restrict_pickles
from harness.workers.memory import GIB
from harness.workers.protocol import CellEnded, CellStarted

INFO_KEY = "conform"
"""Key of a worker's :class:`WorkerInfo`, as JSON, in the scheduler's information about it."""


class ClusterWorker(Worker):
    """A Dask worker that only runs units of work."""

    def __init__(
        self, *args: Any, root: str, slots: int, memory: float | None = None, **kwargs: Any
    ) -> None:
        restrict_pickles()
        silence_dask()
        self.slot_pool = SlotPool(Path(root), slots, memory)
        info = self.slot_pool.describe_worker()
        resources = {label: float(slots) for label in list_labels(info)}
        ours = {
            "nthreads": slots,
            "resources": {**resources, "memory": self.slot_pool.memory / GIB},
            "startup_information": {INFO_KEY: functools.partial(_encode_info, info)},
        }
        super().__init__(*args, **{**kwargs, **ours})
        close_handlers(self)

    async def close(self, *args: Any, **kwargs: Any) -> Any:
        """End the processes, then the worker."""
        await asyncio.to_thread(self.slot_pool.close)
        return await super().close(*args, **kwargs)


def silence_dask() -> None:
    """Silence Dask's log about peers; the session reports lost workers itself."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)


def close_handlers(server: Any) -> None:
    """Remove the handlers of a Dask server through which peers could send code or files."""
    for name in CLOSED_HANDLERS:
        server.handlers.pop(name, None)


def _encode_info(info: WorkerInfo, worker: Worker) -> str:
    return msgspec.json.encode(info).decode()


def run_unit(text: str) -> str:
    """Run a unit of work; the scheduler calls this function in workers.

    Args:
        text: a :class:`WorkUnit` as JSON. Its events are logged under its topic.

    Returns:
        A :class:`~harness.cluster.messages.UnitResult` as JSON.
    """
    worker: Any = get_worker()
    unit = msgspec.json.decode(text, type=WorkUnit)
    report = functools.partial(_report, worker, unit)
    result = worker.slot_pool.run(unit, report)
    return msgspec.json.encode(msgspec.structs.replace(result, worker=worker.name)).decode()


def _report(worker: Any, unit: WorkUnit, event: CellStarted | CellEnded | CellDied) -> None:
    unit_event = UnitEvent(unit.key, worker.name, event)
    worker.log_event(unit.topic, {"event": msgspec.json.encode(unit_event).decode()})
