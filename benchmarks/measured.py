"""What the benchmarks that start commands have in common: what one took, and on what machine."""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

PACKAGES = ("torch", "executorch", "mlx", "tosa-tools")


class Spent(NamedTuple):
    """What a command took, all processes that it started and waited for included.

    Attributes:
        wall: seconds from start to end.
        cpu: seconds of all cores, user and system.
        status: what it ended with.
        output: what it printed, but for errors.
    """

    wall: float
    cpu: float
    status: int
    output: str


class Ratio(NamedTuple):
    """How many times less something takes, over rounds in which both were measured.

    Attributes:
        median: of all rounds.
        least: in the worst round.
        most: in the best.
    """

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, theirs: Sequence[float], ours: Sequence[float]) -> Ratio:
        """Round by round, so that what slows the machine slows both."""
        each = [first / second for first, second in zip(theirs, ours, strict=True)]
        return cls(statistics.median(each), min(each), max(each))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f} to {self.most:.2f})"


def spent(command: Sequence[str], folder: Path, **environment: str) -> Spent:
    """Run a command to its end.

    Args:
        command: what to start.
        folder: where.
        environment: variables beside those of this process.
    """
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    made = subprocess.run(
        command,
        cwd=folder,
        # As on a machine where modules are compiled once, not in every process.
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": ""} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
    return Spent(wall, cpu, made.returncode, made.stdout)


def host() -> dict[str, Any]:
    """The machine and the packages that a figure depends on."""
    return {
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


def write(path: Path | None, benchmark: str, **figures: Any) -> None:
    """Keep figures as JSON for ``python -m benchmarks.page``; without a path print nothing."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"benchmark": benchmark, "host": host(), **figures}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")
