"""Measures commands, describes the machine and writes results; shared by the benchmarks."""

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


class CommandCost(NamedTuple):
    """Cost of a command, including all processes that it started and waited for.

    Attributes:
        wall: seconds from start to end.
        cpu: seconds of all cores, user and system.
        status: exit code.
        output: its standard output.
    """

    wall: float
    cpu: float
    status: int
    output: str


class Ratio(NamedTuple):
    """How many times less time ours takes than theirs, over rounds in which both were measured.

    Attributes:
        median: of all rounds.
        least: of the worst round.
        most: of the best round.
    """

    median: float
    least: float
    most: float

    @classmethod
    def from_rounds(cls, theirs: Sequence[float], ours: Sequence[float]) -> Ratio:
        """Compare round by round, so that a slow phase of the machine slows both."""
        each = [first / second for first, second in zip(theirs, ours, strict=True)]
        return cls(statistics.median(each), min(each), max(each))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f} to {self.most:.2f})"


def run_command(command: Sequence[str], folder: Path, **environment: str) -> CommandCost:
    """Run a command to its end.

    Args:
        command: the command.
        folder: working directory.
        environment: additional environment variables.
    """
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    made = subprocess.run(
        command,
        cwd=folder,
        # Write bytecode, so that modules are compiled once and not in every process.
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": ""} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
    return CommandCost(wall, cpu, made.returncode, made.stdout)


def describe_host() -> dict[str, Any]:
    """Return the machine and the package versions that a figure depends on."""
    return {
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


def write_figures(path: Path | None, benchmark: str, **figures: Any) -> None:
    """Write figures as JSON for ``python -m benchmarks.page``; without a path do nothing."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"benchmark": benchmark, "host": describe_host(), **figures}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")
