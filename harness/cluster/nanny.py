"""A nanny of Dask's, and another in its place where it gives up: a machine that serves a farm has a
worker as long as the scheduler answers."""

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

from harness.cluster.tls import restrict
from harness.cluster.worker import FarmWorker, close_doors, quiet
from harness.errors import UsageError
from harness.pytest_plugin.workers import fork_server

# Of the worker itself; the processes that run cells have a watch of their own.
_OWN_MEMORY = "2GiB"
_LOOK_SECONDS = 1.0
# A nanny starts a worker that died within a moment. One that was killed as it started it forgets.
_IDLE_LOOKS = 5
_RECONNECT_SECONDS = 60.0
_ENDED = (Status.closing, Status.closed, Status.closing_gracefully, Status.failed)


class FarmNanny(Nanny):
    """Starts a worker again that died."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        restrict()
        quiet()
        ours = {"worker_class": FarmWorker, "memory_limit": _OWN_MEMORY}
        super().__init__(*args, **{**kwargs, **ours})
        close_doors(self)

    @property
    def has_worker(self) -> bool:
        """Whether there is one, or one is about to be."""
        return self.process is not None and self.process.status in (
            Status.starting,
            Status.running,
        )


@dataclass(frozen=True)
class Post:
    """Where a worker serves, and with what.

    Attributes:
        address: of the scheduler.
        security: keys, where there are any.
        root: the checkout.
        name: of the worker, unique on its farm.
        slots: processes that run cells.
        room: GiB that their cells may take together; None for most of what is available.
        host: where it listens; None for the interface that sees the scheduler.
    """

    address: str
    security: Security | None
    root: Path
    name: str
    slots: int
    room: float | None = None
    host: str | None = None

    def nanny(self) -> FarmNanny:
        """One that is not started yet."""
        return FarmNanny(
            self.address,
            security=self.security,
            name=self.name,
            # Dask would have the worker listen on all.
            host=self.host or get_ip(urlsplit(self.address).hostname),  # type: ignore[no-untyped-call]
            root=str(self.root),
            slots=self.slots,
            room=self.room,
            dashboard=False,
            dashboard_address="127.0.0.1:0",
        )

    async def is_answered(self) -> bool:
        """Whether the scheduler answers, now or in a while."""
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


async def serve(post: Post, ready: Callable[[], None]) -> None:
    """Run a worker until this is cancelled.

    Args:
        post: where and with what.
        ready: is told when it has begun.

    Raises:
        UsageError: the scheduler does not answer any more.
        RuntimeError: the worker does not start, the first time.
    """
    # Of all workers of this process and those that take their places: one imports for them.
    fork_server.announce(os.environ)
    has_begun = False
    while True:
        nanny = post.nanny()
        try:
            await nanny
            if not has_begun:
                ready()
            has_begun = True
            await _until_useless(nanny)
        except Exception:
            if not has_begun:
                raise
        finally:
            with contextlib.suppress(Exception):
                await nanny.close(timeout=_IDLE_LOOKS)
        if not await post.is_answered():
            raise UsageError(f"the scheduler at {post.address} does not answer any more")


async def _until_useless(nanny: FarmNanny) -> None:
    """Until it ends, or has neither a worker nor one that starts."""
    idle = 0
    while nanny.status not in _ENDED and idle < _IDLE_LOOKS:
        await asyncio.sleep(_LOOK_SECONDS)
        idle = 0 if nanny.has_worker else idle + 1
