"""Overhead of a cluster: cells that only wait, on workers that run none.

``python -m benchmarks.cluster`` starts a real Dask scheduler and workers on this machine; the
client (:mod:`harness.cluster.client`) is the real one. Only the code that runs a cell is replaced:
it sleeps and returns a record of usual length. Two figures: the overhead of a cell beyond its sleep
with few workers, and the efficiency of many workers (the seconds that all slept, divided by the
seconds of the run times the workers).
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import dask
import msgspec
from distributed import Scheduler, Worker
from rich.console import Console
from rich.table import Table

from benchmarks.command_cost import write_figures
from harness.cluster.client import ClusterCellEnded, ClusterNotice, ClusterSession, UnitSettings
from harness.cluster.connection import Connection
from harness.cluster.ledger import WorkItem
from harness.cluster.messages import UnitResult, WorkerInfo, WorkUnit
from harness.cluster.scheduler import SETTINGS
from harness.cluster.worker import INFO_KEY, silence_dask
from harness.record.cell import Cell, Status
from harness.record.host import Environment
from harness.record.run import BackendState
from harness.session.run_one import CellRequest
from harness.workers.protocol import CellEnded, CellStarted

_CELLS_OF_A_CASE = 4
_FILE = "suites/quick/cases.py"  # one that every checkout has
_INFO = WorkerInfo(Environment(), {"null": BackendState(available=True, runtime="emulated")})
# As long as the record of a passed cell.
_PADDING = "x" * 1500


class SleepingSlotPool:
    """Replaces the processes of a worker."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def run(self, unit: WorkUnit, tell: Any) -> UnitResult:
        """Sleep for each cell and send its events."""
        for name in unit.cells:
            tell(CellStarted(name))
            time.sleep(self._seconds)
            case, _, target = name.partition("@")
            cell = Cell(case=case, target=target, status=Status.PASSED, source=_PADDING)
            tell(CellEnded(name, cell.to_json()))
        return UnitResult(ended=unit.cells)


def _encode_info(worker: Worker) -> str:
    return msgspec.json.encode(_INFO).decode()


def _schedule(pipe: Pipe) -> None:
    async def serve() -> None:
        silence_dask()
        dask.config.set(SETTINGS)
        async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
            pipe.send(scheduler.address)
            await asyncio.to_thread(pipe.recv)

    asyncio.run(serve())


def _work(pipe: Pipe, address: str, workers: int, seconds: float, first: int) -> None:
    async def serve() -> None:
        silence_dask()
        made = []
        for number in range(first, first + workers):
            worker = Worker(
                address,
                host="127.0.0.1",
                name=f"worker{number}",
                nthreads=1,
                dashboard=False,
                resources={"emulated:null": 1.0, "memory": 8.0},
                startup_information={INFO_KEY: _encode_info},
            )
            worker.slot_pool = SleepingSlotPool(seconds)
            made.append(await worker)
        pipe.send(len(made))
        await asyncio.to_thread(pipe.recv)
        await asyncio.gather(*(worker.close() for worker in made))

    asyncio.run(serve())


@contextmanager
def start_cluster(workers: int, seconds: float, processes: int) -> Iterator[str]:
    """Start a scheduler and workers whose cells sleep; yield the address."""
    context = multiprocessing.get_context("spawn")
    pipes = []

    def start(target: Any, *arguments: Any) -> Any:
        ours, theirs = context.Pipe()
        context.Process(target=target, args=(theirs, *arguments), daemon=True).start()
        pipes.append(ours)
        return ours.recv()

    address = start(_schedule)
    share = -(-workers // processes)
    for first in range(0, workers, share):
        start(_work, address, min(share, workers - first), seconds, first)
    try:
        yield address
    finally:
        for pipe in reversed(pipes):
            pipe.send("end")


def measure(workers: int, cells: int, seconds: float, processes: int) -> dict[str, float]:
    """Measure one run.

    Returns:
        Seconds of the run, overhead of a cell beyond its sleep in milliseconds of the whole run,
        and the share of the workers' time in which they slept.
    """
    each = _CELLS_OF_A_CASE
    names = [f"case{number // each}/{number}@null:eager" for number in range(cells)]
    pieces = [
        WorkItem(_FILE, f"case{start // each}", tuple(names[start : start + each]))
        for start in range(0, cells, each)
    ]
    with start_cluster(workers, seconds, processes) as address:
        connection = Connection(address, None)
        cluster = ClusterSession(connection, _INFO.environment, mixed=False, wait=30)
        for _ in cluster.gather():
            pass
        while len(cluster.workers) < workers:
            time.sleep(0.5)
            for _ in cluster.gather():
                pass
        began = time.perf_counter()
        ended = 0
        for happening in cluster.run(pieces, UnitSettings(CellRequest(), Path.cwd(), 3.0, True)):
            if isinstance(happening, ClusterNotice):
                raise SystemExit(happening.text)
            ended += isinstance(happening, ClusterCellEnded)
        took = time.perf_counter() - began
        connection.close()
    if ended != cells:
        raise SystemExit(f"{ended} of {cells} cells came back")
    ideal = cells * seconds / workers
    return {
        "workers": workers,
        "cells": cells,
        "seconds_of_a_cell": seconds,
        "seconds": took,
        "overhead_ms": 1000 * (took - ideal) / cells,
        "efficiency": ideal / took,
    }


def main() -> None:
    """Measure, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "runs",
        nargs="*",
        default=["1:10000:0", "4:10000:0"],
        metavar="WORKERS:CELLS:SECONDS",
        help="runs to measure; each cell sleeps SECONDS (default: %(default)s)",
    )
    parser.add_argument(
        "--processes", type=int, default=2, help="number of processes that run the workers"
    )
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    table = Table("workers", "cells", "sleep", "run", "overhead of a cell", "efficiency")
    found = []
    for text in options.runs:
        workers, cells, seconds = text.split(":")
        figures = measure(int(workers), int(cells), float(seconds), options.processes)
        found.append(figures)
        table.add_row(
            workers,
            f"{int(cells):,}",
            f"{seconds} s",
            f"{figures['seconds']:.1f} s",
            f"{figures['overhead_ms']:.2f} ms",
            f"{figures['efficiency']:.1%}" if float(seconds) else "",
        )
    Console().print(table)
    write_figures(options.json, "cluster", runs=found)


if __name__ == "__main__":
    main()
