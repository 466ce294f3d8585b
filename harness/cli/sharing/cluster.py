"""``conform worker`` and ``conform cluster``: the parts of a farm beside the session."""

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
    help="Keys of the farm (conform cluster keys). Needed for anything but loopback.",
)


@click.command()
@click.argument("address")
@click.option("-n", "slots", type=click.IntRange(min=1), help="Cells at once; default: one a core.")
@click.option("--name", help="Name in records; default: the host's and the process's.")
@click.option(
    "--memory",
    type=ABOVE_ZERO,
    metavar="GIB",
    help="What its cells may take together; default: nine tenths of what is available.",
)
@click.option("--host", help="Where it listens; default: the interface that sees the scheduler.")
@KEYS
def worker(
    address: str,
    slots: int | None,
    name: str | None,
    memory: float | None,
    host: str | None,
    keys: Path | None,
) -> None:
    """Run cells of this checkout for the scheduler at ADDRESS, until it ends.

    A nanny starts the worker again when it dies; each slot is a process that runs one cell at a
    time, and another takes its place when a cell ends it. Nothing that a peer sends is executed: a
    unit of work names a suite of this checkout, and a checkout that differs from the session's is
    refused, or takes part under its own name (conform run --mixed).
    """
    farm = _dask()
    from harness.record.host import available_cores

    address, security = farm.tls.secured(address, keys)
    count = slots or available_cores()
    own = name or f"{platform.node()}-{os.getpid()}"

    def ready() -> None:
        click.echo(f"conform: worker {own} serves {address}, slots: {count}")

    post = farm.nanny.Post(address, security, Path.cwd(), own, count, memory, host)
    _run(farm.nanny.serve(post, ready))


@click.group()
def cluster() -> None:
    """A farm: keys, a scheduler, workers of this machine.

    On one machine: conform cluster up --local 2, and then conform run --cluster ADDRESS with the
    address that it prints. On several: conform cluster keys, conform cluster up, and on each a
    conform worker; docs/cluster.md has the commands.
    """


@cluster.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def keys(folder: Path) -> None:
    """Write into FOLDER what all parts of a farm need to trust each other.

    Give the folder, without authority-key.pem, to every machine, and --keys FOLDER to every part.
    The keys are valid for a year.
    """
    _dask().trust.make_keys(folder)
    click.echo(f"conform: keys in {folder}; authority-key.pem is needed by no part of a farm")


@cluster.command()
@click.option(
    "--address",
    default="tcp://127.0.0.1:8786",
    show_default=True,
    help="Where the scheduler listens; port 0 for a free one.",
)
@click.option(
    "--local",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Workers to start here as well, each with one slot.",
)
@click.option(
    "--memory", type=ABOVE_ZERO, metavar="GIB", help="What the cells of a local worker may take."
)
@KEYS
def up(address: str, local: int, memory: float | None, keys: Path | None) -> None:
    """Run a scheduler until it is interrupted; the first line printed has its address."""
    farm = _dask()
    address, security = farm.tls.secured(address, keys)
    _run(farm.scheduler.serve(address, security, Path.cwd(), local, memory, click.echo))


def _run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Until it ends, or somebody interrupts it.

    Raises:
        UsageError: it does not begin.
    """
    with contextlib.suppress(KeyboardInterrupt):
        try:
            asyncio.run(coroutine)
        except (RuntimeError, OSError, TimeoutError) as error:
            raise UsageError(f"it does not start: {error.__cause__ or error}") from error


def _dask() -> Any:
    """The modules that need Dask.

    Raises:
        UsageError: it is not installed.
    """
    from harness.cluster import requirements

    with requirements.needed():
        import harness.cluster.nanny
        import harness.cluster.scheduler
        import harness.cluster.tls
    return harness.cluster
