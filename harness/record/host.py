"""Where a run happens: packages, machine, git state. Imports no torch."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.record.revision import read_revision

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
    """Where a run happened. A package that is not installed is absent from ``packages``.

    ``vectors`` is what the processor computes vectors with, as :func:`describe_vectors` spells it.
    ``git_dirty`` says whether files that git knows were changed, ``git_digest`` is of what was;
    ``git_home`` is the page of the repository on the web.
    """

    python: str = ""
    platform: str = ""
    machine: str = ""
    processor: str = ""
    vectors: str = ""
    cores: int = 0
    host: str = ""
    packages: dict[str, str] = {}
    git_commit: str | None = None
    git_dirty: bool | None = None
    git_digest: str | None = None
    git_home: str | None = None

    @property
    def revision(self) -> str:
        """The code in words: the commit, and the digest of what was changed on top of it."""
        if not self.git_commit:
            return ""
        aside = f" with local changes {self.git_digest or ''}".rstrip() if self.git_dirty else ""
        return f"{self.git_commit[:12]}{aside}"


def read_environment(root: Path) -> Environment:
    """Describe this host and its packages; ``root`` is where the git state is read."""
    packages = {}
    for name in _RECORDED_PACKAGES:
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    code = read_revision(root)
    return Environment(
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        processor=_processor(),
        vectors=describe_vectors(),
        cores=available_cores(),
        host=platform.node(),
        packages=packages,
        git_commit=code.commit,
        git_dirty=code.dirty,
        git_digest=code.digest,
        git_home=code.home,
    )


def is_like_here(there: Environment) -> bool:
    """Whether a host computes as this one does: the processor's vectors, the system, Python."""
    return (there.vectors, there.platform.partition(" ")[0], there.python) == (
        describe_vectors(), platform.system(), platform.python_version()
    )  # fmt: skip


def available_cores() -> int:
    """Cores this process may use, which in a container is less than the machine has."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_memory(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that this process and its children may still take without ending others, which in a
    container is less than the machine has; where the system tells no more, all that it has.

    Args:
        proc: where Linux lists its state.
        groups: where it has its control groups.
    """
    left = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with contextlib.suppress(OSError, ValueError):
        for line in (proc / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                left.append(int(line.split()[1]) * 1024)
    left += _left_in_groups(proc, groups)
    return min(left)


def _left_in_groups(proc: Path, groups: Path) -> Iterator[int]:
    """What is left to each control group of this process that has a limit, of version 2 or 1."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        kind = next((each for each in controllers.split(",") if each in _GROUP_FILES), None)
        if kind is None:
            continue
        limit, used, idle = _GROUP_FILES[kind]
        top = groups / kind
        place = top / name.lstrip("/")
        # In a container the name is that of the host, and its own group is at the top.
        for folder in {top, *(each for each in [place, *place.parents] if top in each.parents)}:
            with contextlib.suppress(OSError, ValueError):
                most = int((folder / limit).read_text())  # "max" where there is none
                files = 0  # pages of files that the system drops first
                for entry in (folder / "memory.stat").read_text().splitlines():
                    key, _, value = entry.partition(" ")
                    files += int(value) if key == idle else 0
                yield max(most - int((folder / used).read_text()) + files, 0)


# By controller: the files of a limit and of what is used, and the count of idle pages of files.
_GROUP_FILES = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


# From the widest on; what vendors choose kernels by.
_EXTENSIONS = {
    "x86_64": ("avx512f", "avx2", "avx", "sse4_1", "sse2"),
    "aarch64": ("sve", "asimd"),
}


@functools.cache
def describe_vectors(cpuinfo: Path = Path("/proc/cpuinfo"), machine: str | None = None) -> str:
    """The machine and the widest vectors that its processor has: ``x86_64/avx512f``,
    ``x86_64/avx2``, ``aarch64/asimd``. Native kernels differ by that, results of theirs as well.

    Args:
        cpuinfo: where Linux lists what it has; elsewhere nothing stands behind the slash.
        machine: None for this one.
    """
    machine = machine or platform.machine()
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for line in cpuinfo.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("flags", "Features"):
                found.update(value.split())
                break
    widest = next((each for each in _EXTENSIONS.get(machine, ()) if each in found), "")
    return f"{machine}/{widest}"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()
