"""Runs a Dask scheduler, and optionally workers on the same machine."""

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
from harness.cluster.nanny import WorkerConfig
from harness.cluster.tls import restrict_pickles
from harness.cluster.worker import close_handlers, silence_dask

SETTINGS = {
    # The session decides whether to retry a unit whose worker is lost.
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.worker-ttl": "30s",
    # Events are forwarded and not read later.
    "distributed.admin.low-level-log-length": 1000,
    "distributed.worker.memory.terminate": False,
}


async def serve(
    address: str,
    security: Security | None,
    root: Path,
    local: int,
    memory: float | None,
    say: Callable[[str], None],
) -> None:
    """Run a scheduler until this process gets SIGINT or SIGTERM.

    Args:
        address: address to listen on.
        security: TLS keys; None without.
        root: checkout of the local workers.
        local: number of local workers, each with one slot.
        memory: memory in GiB for the cells of each; None for an equal share of available memory.
        say: prints a line.
    """
    silence_dask()
    dask.config.set(SETTINGS)
    restrict_pickles(scheduler=True)
    split = urlsplit(address)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    scheduler = Scheduler(
        host=split.hostname,
        port=split.port or 0,
        protocol=f"{split.scheme}://",
        security=security,
        # The dashboard has no access control: only this machine may see it.
        dashboard_address="127.0.0.1:0",
    )
    close_handlers(scheduler)
    async with scheduler:
        say(f"conform: scheduler at {scheduler.address}")
        configs = [
            WorkerConfig(scheduler.address, security, root, f"local{number}", 1, memory)
            for number in range(local)
        ]
        try:
            await _serve_all(configs, stop, say)
        except ExceptionGroup as group:
            raise group.exceptions[0] from group
        say("conform: the scheduler ends")


async def _serve_all(
    configs: Sequence[WorkerConfig], stop: asyncio.Event, say: Callable[[str], None]
) -> None:
    """Run workers until ``stop`` is set."""

    async def announce() -> None:
        for event in started:
            await event.wait()
        if configs:
            say(
                f"conform: {len(configs)} workers; use them with: "
                f"conform run --cluster {configs[0].address}"
            )

    started = [asyncio.Event() for _ in configs]
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(nanny.serve(config, event.set))
            for config, event in zip(configs, started, strict=True)
        ]
        tasks.append(group.create_task(announce()))
        await stop.wait()
        for task in tasks:
            task.cancel()
