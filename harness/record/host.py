"""Where a run happens: packages, machine, git state. Imports no torch."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path

import msgspec

_RECORDED_PACKAGES = (
    "torch",
    "executorch",
    "torchao",
    "mlx",
    "tosa-tools",
    "transformers",
    "numpy",
    "pytest",
    "pytest-xdist",
    "pandas",
)


class Environment(msgspec.Struct, kw_only=True):
    """Where a run happened. A package that is not installed is absent from ``packages``."""

    python: str = ""
    platform: str = ""
    machine: str = ""
    processor: str = ""
    cores: int = 0
    host: str = ""
    packages: dict[str, str] = {}
    git_commit: str | None = None
    git_dirty: bool | None = None


def environment(root: Path) -> Environment:
    """Describe this host and its packages; ``root`` is where the git state is read."""
    packages = {}
    for name in _RECORDED_PACKAGES:
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    status = _git(root, "status", "--porcelain")
    return Environment(
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        processor=_processor(),
        cores=available_cores(),
        host=platform.node(),
        packages=packages,
        git_commit=_git(root, "rev-parse", "HEAD"),
        git_dirty=None if status is None else bool(status),
    )


def available_cores() -> int:
    """Cores this process may use, which in a container is less than the machine has."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()


def _git(root: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
