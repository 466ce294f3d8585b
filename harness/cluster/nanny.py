"""Supervises a worker: restarts it, and Dask's nanny process, as long as the scheduler answers."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from distributed import Nanny, Status
from distributed.comm.core import connect
from distributed.security import Security
from distributed.utils import get_ip

from harness.cluster.tls import restrict_pickles
from harness.cluster.worker import ClusterWorker, close_handlers, silence_dask
from harness.errors import UsageError
from harness.workers import fork_server

# For the worker process itself; a memory monitor watches the processes that run cells.
_OWN_MEMORY = "2GiB"
_LOOK_SECONDS = 1.0
# A nanny restarts a dead worker at once, but not one that was killed while it started.
_IDLE_LOOKS = 5
_RECONNECT_SECONDS = 60.0
_ENDED = (Status.closing, Status.closed, Status.closing_gracefully, Status.failed)


class ClusterNanny(Nanny):
    """A Dask nanny that restarts a dead :class:`ClusterWorker`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        restrict_pickles()
        silence_dask()
        ours = {"worker_class": ClusterWorker, "memory_limit": _OWN_MEMORY}
        super().__init__(*args, **{**kwargs, **ours})
        close_handlers(self)

    @property
    def has_worker(self) -> bool:
        """Whether a worker runs or starts."""
        return self.process is not None and self.process.status in (
            Status.starting,
            Status.running,
        )


@dataclass(frozen=True)
class WorkerConfig:
    """Settings of a worker.

    Attributes:
        address: address of the scheduler.
        security: TLS keys; None without.
        root: root of the checkout.
        name: name of the worker, unique in its cluster.
        slots: number of processes that run cells.
        memory: memory in GiB for all cells together; None for most of the available memory.
        host: address to listen on; None for the interface to the scheduler.
    """

    address: str
    security: Security | None
    root: Path
    name: str
    slots: int
    memory: float | None = None
    host: str | None = None

    def create_nanny(self) -> ClusterNanny:
        """Create a nanny without starting it."""
        return ClusterNanny(
            self.address,
            security=self.security,
            name=self.name,
            # Dask's default is to listen on all interfaces.
            host=self.host or get_ip(urlsplit(self.address).hostname),  # type: ignore[no-untyped-call]
            root=str(self.root),
            slots=self.slots,
            memory=self.memory,
            dashboard=False,
            dashboard_address="127.0.0.1:0",
        )

    async def is_scheduler_alive(self) -> bool:
        """Whether the scheduler answers within a minute."""
        security: Any = self.security
        arguments = {} if security is None else security.get_connection_args("worker")
        reach: Any = connect
        end = asyncio.get_running_loop().time() + _RECONNECT_SECONDS
        while asyncio.get_running_loop().time() < end:
            with contextlib.suppress(OSError, TimeoutError):
                comm = await reach(self.address, timeout=_IDLE_LOOKS, **arguments)
                await comm.close()
                return True
            await asyncio.sleep(_LOOK_SECONDS)
        return False


async def serve(config: WorkerConfig, on_ready: Callable[[], None]) -> None:
    """Run a worker until this is cancelled.

    Args:
        config: settings of the worker.
        on_ready: called when the worker has started.

    Raises:
        UsageError: the scheduler no longer answers.
        RuntimeError: the worker does not start for the first time.
    """
    # One fork server imports torch for all workers that this process starts.
    fork_server.announce(os.environ)
    has_begun = False
    while True:
        nanny = config.create_nanny()
        try:
            await nanny
            if not has_begun:
                on_ready()
            has_begun = True
            await _wait_until_idle(nanny)
        except Exception:
            if not has_begun:
                raise
        finally:
            with contextlib.suppress(Exception):
                await nanny.close(timeout=_IDLE_LOOKS)
        if not await config.is_scheduler_alive():
            raise UsageError(f"the scheduler at {config.address} no longer answers")


async def _wait_until_idle(nanny: ClusterNanny) -> None:
    """Wait until the nanny ends, or has no worker for several seconds."""
    idle = 0
    while nanny.status not in _ENDED and idle < _IDLE_LOOKS:
        await asyncio.sleep(_LOOK_SECONDS)
        idle = 0 if nanny.has_worker else idle + 1
