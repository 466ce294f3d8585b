"""A worker of a farm: Dask's, around processes that run cells of this checkout."""

from __future__ import annotations

import asyncio
import functools
import logging
from pathlib import Path
from typing import Any

import msgspec
from distributed import Worker, get_worker

from harness.cluster.messages import Began, Died, Ended, Hello, Told, Unit
from harness.cluster.placement import labels_of
from harness.cluster.slot import Crew
from harness.cluster.tls import CLOSED, restrict
from harness.execution.memory import GIB

HELLO = "conform"
"""Under which a worker's :class:`Hello`, as JSON, is among what its scheduler knows of it."""


class FarmWorker(Worker):
    """A worker of Dask's that runs units of work and nothing else."""

    def __init__(
        self, *args: Any, root: str, slots: int, room: float | None = None, **kwargs: Any
    ) -> None:
        restrict()
        quiet()
        self.crew = Crew(Path(root), slots, room)
        hello = self.crew.hello()
        resources = {label: float(slots) for label in labels_of(hello)}
        ours = {
            "nthreads": slots,
            "resources": {**resources, "memory": self.crew.room / GIB},
            "startup_information": {HELLO: functools.partial(_told, hello)},
        }
        super().__init__(*args, **{**kwargs, **ours})
        close_doors(self)

    async def close(self, *args: Any, **kwargs: Any) -> Any:
        """End the processes, then the worker."""
        await asyncio.to_thread(self.crew.close)
        return await super().close(*args, **kwargs)


def quiet() -> None:
    """What Dask logs of peers that come and go is said by us, where it matters."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)


def close_doors(server: Any) -> None:
    """Take from one of Dask's servers what is there for code of peers."""
    for name in CLOSED:
        server.handlers.pop(name, None)


def _told(hello: Hello, worker: Worker) -> str:
    return msgspec.json.encode(hello).decode()


def run_unit(text: str) -> str:
    """What the scheduler has a worker do: a :class:`Unit` as JSON, answered by an
    :class:`~harness.cluster.messages.Outcome` as JSON. Each cell is told of meanwhile."""
    worker: Any = get_worker()
    unit = msgspec.json.decode(text, type=Unit)
    tell = functools.partial(_tell, worker, unit)
    outcome = worker.crew.run(unit, tell)
    return msgspec.json.encode(msgspec.structs.replace(outcome, worker=worker.name)).decode()


def _tell(worker: Any, unit: Unit, event: Began | Ended | Died) -> None:
    told = Told(unit.key, worker.name, event)
    worker.log_event(unit.topic, {"told": msgspec.json.encode(told).decode()})
