"""``conform cluster``: keys, scheduler and workers of a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from harness.cli.common import ABOVE_ZERO
from harness.errors import UsageError

KEYS = click.option(
    "--keys",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Read TLS keys from this folder (conform cluster keys); required beyond this machine.",
)


@click.group()
def cluster() -> None:
    """Run cells on several processes or machines.

    On one machine: run conform cluster up --local 2, then conform run --cluster ADDRESS with the
    printed address. On several: run conform cluster keys, conform cluster up, and conform cluster
    worker on each machine; docs/cluster.md lists the commands.
    """


@cluster.command()
@click.argument("address")
@click.option(
    "-n",
    "slots",
    type=click.IntRange(min=1),
    help="Run this many cells at once.  [default: one per core]",
)
@click.option("--name", help="Use this name in records.  [default: HOST-PID]")
@click.option(
    "--memory",
    type=ABOVE_ZERO,
    metavar="GIB",
    help="Limit the memory of all cells together.  [default: 90 % of the available memory]",
)
@click.option("--host", help="Listen on this address.  [default: the interface to the scheduler]")
@KEYS
def worker(
    address: str,
    slots: int | None,
    name: str | None,
    memory: float | None,
    host: str | None,
    keys: Path | None,
) -> None:
    """Run cells of this checkout for the scheduler at ADDRESS, until the scheduler ends.

    A supervisor restarts the worker if it dies. Each slot is a process that runs one cell at a
    time, and is replaced if a cell ends it. The worker executes no code from the network: a unit of
    work names a suite of this checkout. A session refuses workers whose checkout differs from its
    own, unless it runs with --allow-mixed-workers.
    """
    modules = _import_cluster()
    from harness.record.host import available_cores

    address, security = modules.tls.resolve_address(address, keys)
    count = slots or available_cores()
    worker_name = name or f"{platform.node()}-{os.getpid()}"

    def print_ready() -> None:
        click.echo(f"conform: worker {worker_name} serves {address}, slots: {count}")

    config = modules.nanny.WorkerConfig(
        address, security, Path.cwd(), worker_name, count, memory, host
    )
    _run(modules.nanny.serve(config, print_ready))


@cluster.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def keys(folder: Path) -> None:
    """Create the TLS keys of a cluster in FOLDER.

    Copy the folder without authority-key.pem to every machine, and give --keys FOLDER to the
    scheduler, the workers and the session. The keys are valid for a year.
    """
    _import_cluster().tls.make_keys(folder)
    click.echo(f"conform: keys in {folder}; do not copy authority-key.pem to other machines")


@cluster.command()
@click.option(
    "--address",
    default="tcp://127.0.0.1:8786",
    show_default=True,
    help="Listen on this address; port 0 chooses a free port.",
)
@click.option(
    "--local",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    show_default=True,
    help="Start N workers on this machine as well, each with one slot.",
)
@click.option(
    "--memory",
    type=ABOVE_ZERO,
    metavar="GIB",
    help="Limit the memory of each local worker's cells.  [default: an equal share]",
)
@KEYS
def up(address: str, local: int, memory: float | None, keys: Path | None) -> None:
    """Run a scheduler until it is interrupted; the first line of the output has its address."""
    modules = _import_cluster()
    address, security = modules.tls.resolve_address(address, keys)
    _run(modules.scheduler.serve(address, security, Path.cwd(), local, memory, click.echo))


def _run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine until it ends or is interrupted.

    Raises:
        UsageError: it does not start.
    """
    with contextlib.suppress(KeyboardInterrupt):
        try:
            asyncio.run(coroutine)
        except (RuntimeError, OSError, TimeoutError) as error:
            raise UsageError(f"cannot start: {error.__cause__ or error}") from error


def _import_cluster() -> Any:
    """Import the modules that need Dask.

    Raises:
        UsageError: Dask is not installed.
    """
    from harness.cluster import requirements

    with requirements.require_dask():
        import harness.cluster.nanny
        import harness.cluster.scheduler
        import harness.cluster.tls
    return harness.cluster
