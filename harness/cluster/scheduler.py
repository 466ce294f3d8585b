"""A scheduler of Dask's for a farm, and workers beside it on the same machine."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import dask
from distributed import Scheduler
from distributed.security import Security

from harness.cluster import nanny
from harness.cluster.nanny import Post
from harness.cluster.tls import restrict
from harness.cluster.worker import close_doors, quiet

SETTINGS = {
    # A unit whose worker is lost goes back to the session, which knows what to try again.
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.worker-ttl": "30s",
    # Events are handed on, and nobody reads them later.
    "distributed.admin.low-level-log-length": 1000,
    "distributed.worker.memory.terminate": False,
}


async def serve(
    address: str,
    security: Security | None,
    root: Path,
    local: int,
    room: float | None,
    say: Callable[[str], None],
) -> None:
    """Run a scheduler until this process is asked to end.

    Args:
        address: where it listens.
        security: keys, where there are any.
        root: the checkout of local workers.
        local: how many there are, each with one slot.
        room: GiB that the cells of each may take; None for an equal part of what is available.
        say: prints a line.
    """
    quiet()
    dask.config.set(SETTINGS)
    restrict(scheduler=True)
    split = urlsplit(address)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    scheduler = Scheduler(
        host=split.hostname,
        port=split.port or 0,
        protocol=f"{split.scheme}://",
        security=security,
        # Its page has no keys: it is for this machine.
        dashboard_address="127.0.0.1:0",
    )
    close_doors(scheduler)
    async with scheduler:
        say(f"conform: scheduler at {scheduler.address}")
        posts = [
            Post(scheduler.address, security, root, f"local{number}", 1, room)
            for number in range(local)
        ]
        try:
            await _serve_all(posts, stop, say)
        except ExceptionGroup as group:
            raise group.exceptions[0] from group
        say("conform: the scheduler ends")


async def _serve_all(
    posts: Sequence[Post], stop: asyncio.Event, say: Callable[[str], None]
) -> None:
    """Have workers until somebody says stop."""

    async def announce() -> None:
        for event in begun:
            await event.wait()
        if posts:
            say(
                f"conform: {len(posts)} workers; use them: conform run --cluster {posts[0].address}"
            )

    begun = [asyncio.Event() for _ in posts]
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(nanny.serve(post, event.set))
            for post, event in zip(posts, begun, strict=True)
        ]
        tasks.append(group.create_task(announce()))
        await stop.wait()
        for task in tasks:
            task.cancel()
