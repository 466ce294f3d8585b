"""Time and memory of ``conform history`` over 400 nightly runs of 10,000 cells.

    python -m benchmarks.history [--nights N] [--cells N] [--store FOLDER] [--full]

Writes synthetic nightly runs with the harness' own writer and prints the time of the compact copy
of a run. Then prints, for each way to use ``conform history``, the seconds and the peak memory of
that process. The aims with a warm store are 10 s and 2 GiB.

A run has 15 MB of records. Once its copy is made they are emptied, keeping size and time, because
a warm start looks at nothing else; ``--full`` keeps them. FOLDER is kept for another measurement,
and runs that it already has are reused.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from harness import Cell, Delegation, Numerics, Status
from harness.record.cell import LimitationRef
from harness.record.folder import CELLS_FILE, RunWriter
from harness.record.host import Environment
from harness.record.run import BackendState, RunInfo

AIM_SECONDS, AIM_GIB = 10.0, 2.0
TARGETS = ["portable:fp32", "xnnpack:fp32", "xnnpack:int8", "tosa:fp", "tosa:int",
           "mlx:fp32", "mlx:bf16", "metal:fp32", "metal:bf16", "metal:int4"]  # fmt: skip
_START = datetime(2025, 10, 1, 2, tzinfo=UTC)
_PROCESSORS = ["AMD EPYC 7763", "Intel Xeon Platinum 8370C"]


class SyntheticRuns:
    """Nightly runs that vary like real ones: noise in times, and a few lasting changes.

    They contain package upgrades every 90 runs that change sizes and times of one target; cells
    that become slower, larger or less accurate; cells that start to fail; flaky cells; two
    processors; every third run on the commit of the run before; interrupted runs; and one run with
    a damaged line.
    """

    def __init__(self, cells: int, nights: int) -> None:
        choose = np.random.default_rng(5)
        count = -(-cells // len(TARGETS))
        self.names = [
            (f"op_{case % 320}/variant_{case // 320}", target)
            for case in range(count)
            for target in TARGETS
        ][:cells]
        self.seconds = choose.lognormal(-1.4, 0.7, cells)
        self.sqnr = np.where(choose.random(cells) < 0.38, np.inf, choose.normal(140, 12, cells))
        self.used = choose.beta(0.4, 6, cells)
        self.bytes = choose.lognormal(7.6, 0.8, cells).astype(int) // 16 * 16
        self.nodes = choose.integers(1, 12, cells)
        # The run in which a cell changes, and the kind of change: most cells never change.
        self.change = np.where(
            choose.random(cells) < 0.03, choose.integers(5, max(nights, 6), cells), -1
        )
        self.kind = choose.integers(0, 5, cells)
        self.flaky = choose.random(cells) < 0.002
        self.nights = nights

    def write(self, folder: Path, night: int) -> None:
        """Write one run as the harness does."""
        choose, luck = np.random.default_rng(night), random.Random(night)
        total = len(self.names)
        processor = _PROCESSORS[night % 7 == 3]
        noise = choose.lognormal(0.02 * choose.standard_normal(), 0.12, total)
        noise *= 1.3 if processor != _PROCESSORS[0] else 1.0
        made = _START + timedelta(days=night)
        info = RunInfo(
            started=made.isoformat(timespec="seconds"),
            command=["pytest", "-m", ""],
            targets=TARGETS,
            expected=[f"{case}@{target}" for case, target in self.names],
            backends={"xnnpack": BackendState(available=True, runtime="native")},
            environment=_environment(night, processor),
        )
        writer = RunWriter(folder, info)
        killed = night % 37 == 36
        for at in range(total if not killed else total * 2 // 3):
            writer.append(self._cell(at, night, float(noise[at]), luck))
        writer.close(exit_status=1)
        if killed:
            writer.info.complete, writer.info.ended, writer.info.exit_status = False, None, None
            writer.save()
        if night == 11:
            with (folder / CELLS_FILE).open("ab") as file:
                file.write(b'{"case": "cut off\n')

    def _cell(self, at: int, night: int, noise: float, luck: random.Random) -> Cell:
        case, target = self.names[at]
        changed = 0 <= self.change[at] <= night
        kind = int(self.kind[at]) if changed else -1
        upgraded = night // 90 if target == "xnnpack:int8" else 0
        slow = (1.5 if kind == 0 else 1.0) * (1.1**upgraded)
        seconds = float(self.seconds[at]) * noise * slow
        common: dict[str, Any] = {
            "case": case, "target": target, "suite": "suites.ops.synthetic",
            "op": case.partition("/")[0], "tags": ["fp32", "ops"], "worker": f"gw{at % 4}",
            "seconds": seconds, "overhead": 0.02,
            "stages": {"build": 0.003, "export": seconds * 0.2, "lower": seconds * 0.5,
                       "to_executorch": 0.02, "serialize": 1e-5, "run": seconds * 0.2,
                       "reference": 0.008, "compare": 0.001},
        }  # fmt: skip
        if at % 23 == 5:
            reason = LimitationRef(reason=f"no kernel of kind {at % 40}", link=None)
            return Cell(**common, status=Status.XFAILED, stage="lower", limitation=reason,
                        error=f"RuntimeError: no kernel of kind {at % 40}")  # fmt: skip
        if at % 31 == 7:
            return Cell(**common, status=Status.UNSUPPORTED, error="declared so")
        if kind == 4 or (self.flaky[at] and luck.random() < 0.2):
            error = f"RuntimeError: delegate failed with {luck.randrange(99)}"
            return Cell(**common, status=Status.FAILED, stage="run", error=error,
                        traceback="Traceback\n" * 20)  # fmt: skip
        used = float(self.used[at]) + (0.3 if kind == 1 else 0.0)
        sqnr = float(self.sqnr[at]) - (9.0 if kind == 1 else 0.0)
        nodes = int(self.nodes[at])
        lost = min(nodes, 2) if kind == 2 else 0
        size = int(int(self.bytes[at]) * (1.2 if kind == 3 else 1.0) * 1.03**upgraded)
        output = Numerics(
            call=0, output=0, dtype="float32", shape=[5, 7], max_abs=1e-7 * used, mean_abs=1e-8,
            max_ulp=1.0, sqnr_db=sqnr, rel_fro=1e-7, cosine=1.0, bound=1e-7, bound_used=used,
            exceeding=0, elements=35, worst_index=[0, 0], worst_actual=0.017, worst_expected=0.017,
            eager_max_abs=0.0, eager_sqnr_db=sqnr,
        )  # fmt: skip
        taken = Delegation(
            delegates=1 + lost, delegated_nodes=nodes - lost, undelegated_nodes=lost,
            delegated_ops={"aten.add.Tensor": nodes - lost},
            undelegated_ops={"aten.cat.default": lost} if lost else {},
        )  # fmt: skip
        return Cell(**common, status=Status.PASSED, runtime="native", delegation=taken,
                    numerics=[output], program_bytes=size)  # fmt: skip


def _environment(night: int, processor: str) -> Environment:
    commit = night - (night % 3 == 2)
    return Environment(
        python="3.11.9", platform="Linux 6.8.0", machine="x86_64", processor=processor, cores=4,
        host=f"runner-{night}", git_commit=hashlib.sha1(f"{commit}".encode()).hexdigest(),
        git_dirty=False,
        packages={"torch": f"2.{9 + night // 90}.0", "executorch": "1.5.1", "numpy": "2.1.3"},
    )  # fmt: skip


def write_runs(store: Path, cells: int, nights: int, *, full: bool) -> list[float]:
    """Write the missing runs; return the seconds of each compact copy."""
    from reports.history.compact import open_copies
    from reports.history.store import CACHE

    made = SyntheticRuns(cells, nights)
    took = []
    for night in range(nights):
        folder = store / f"{(_START + timedelta(days=night)):%Y%m%dT%H%M%S}-{night}"
        if folder.exists():
            continue
        made.write(folder, night)
        begin = time.perf_counter()
        _, problem = open_copies(folder, store / CACHE)
        took.append(time.perf_counter() - begin)
        if problem:
            raise SystemExit(f"the copy of {folder} could not be written: {problem}")
        if not full:
            _truncate(folder / CELLS_FILE)
    return took


def _truncate(file: Path) -> None:
    found = file.stat()
    os.truncate(file, 0)
    os.truncate(file, found.st_size)
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))


def measure_command(store: Path, *options: str) -> tuple[float, float, float]:
    """Return wall-clock seconds, processor seconds and peak GiB of one ``conform history``."""
    command = [sys.executable, "-m", "harness.cli", "history", str(store), *options]
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024  # bytes on macOS, KiB on Linux
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit / 2**30


def main() -> None:
    """Write the runs, measure and print."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--nights", type=int, default=400)
    options.add_argument("--cells", type=int, default=10_000)
    options.add_argument("--store", type=Path)
    options.add_argument("--full", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as spare:
        store = given.store or Path(spare)
        store.mkdir(parents=True, exist_ok=True)
        took = write_runs(store, given.cells, given.nights, full=given.full)
        if took:
            print(f"compact copy of a run: median {statistics.median(took):.2f} s, "
                  f"largest {max(took):.2f} s")  # fmt: skip
        print(f"{given.nights} nightly runs × {given.cells:,} cells, warm store")
        name = "op_7/variant_3@xnnpack:fp32"
        for asked in ([], ["--steps"], ["--flaky"], ["--first-bad"], ["--cell", name]):
            seconds, busy, memory = measure_command(store, *asked)
            print(f"  conform history {' '.join(asked):35} {seconds:6.1f} s ({busy:.1f} s of "
                  f"processor time)  {memory:5.2f} GiB")  # fmt: skip
        print(f"aims: {AIM_SECONDS:.0f} s, {AIM_GIB:.0f} GiB")


if __name__ == "__main__":
    main()
