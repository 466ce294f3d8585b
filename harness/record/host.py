"""The host of a run: packages, machine, git state. Imports no torch."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.record.revision import read_revision

ENTRY_POINT_GROUP = "conform.backends"
"""The group of the entry points of out-of-tree backends."""

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
    """The host of a run. A package that is not installed is absent from ``packages``; those of
    out-of-tree backends and their requirements are among them.

    ``vectors`` is the processor's vector extension, as :func:`describe_vectors` writes it.
    ``git_dirty`` says whether tracked files were changed, ``git_digest`` is a digest of the
    changes; ``git_home`` is the web page of the repository.
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
        """Describe the code: the commit, and the digest of local changes."""
        if not self.git_commit:
            return ""
        aside = f" with local changes {self.git_digest or ''}".rstrip() if self.git_dirty else ""
        return f"{self.git_commit[:12]}{aside}"


def read_environment(root: Path) -> Environment:
    """Describe this host and its packages; ``root`` is where the git state is read."""
    packages = {}
    for name in (*_RECORDED_PACKAGES, *_list_backend_packages()):
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


def _list_backend_packages() -> Iterator[str]:
    """List the distributions of out-of-tree backends, and those that they require."""
    points = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    for backend in (point.dist for point in points if point.dist is not None):
        yield backend.name
        for requirement in backend.requires or ():
            if named := re.match(r"[\w.-]+", requirement):
                yield named[0]


def is_like_here(there: Environment) -> bool:
    """Return whether a host computes as this one does: same vector extension, system and Python."""
    return (there.vectors, there.platform.partition(" ")[0], there.python) == (
        describe_vectors(), platform.system(), platform.python_version()
    )  # fmt: skip


def available_cores() -> int:
    """Return the number of cores that this process may use; in a container fewer than the machine
    has."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_memory(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the bytes that this process and its children may still allocate safely.

    In a container this is less than the machine has. Where the system reports no more, it is the
    machine's whole memory.

    Args:
        proc: the folder of Linux' process information.
        groups: the folder of its control groups.
    """
    left = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with contextlib.suppress(OSError, ValueError):
        for line in (proc / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                left.append(int(line.split()[1]) * 1024)
    left += _read_bytes_left_in_groups(proc, groups)
    return min(left)


def _read_bytes_left_in_groups(proc: Path, groups: Path) -> Iterator[int]:
    """Return the remaining bytes of each control group of this process with a limit, version 2 or
    1."""
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
        # In a container the name is the host's name of the group, and the group itself is at the
        # top.
        for folder in {top, *(each for each in [place, *place.parents] if top in each.parents)}:
            with contextlib.suppress(OSError, ValueError):
                most = int((folder / limit).read_text())  # "max" where there is none
                files = 0  # pages of files that the system drops first
                for entry in (folder / "memory.stat").read_text().splitlines():
                    key, _, value = entry.partition(" ")
                    files += int(value) if key == idle else 0
                yield max(most - int((folder / used).read_text()) + files, 0)


# By controller: the files of limit and usage, and the counter of idle file pages.
_GROUP_FILES = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


# Widest first; vendors choose kernels by these features.
_EXTENSIONS = {
    "x86_64": ("avx512f", "avx2", "avx", "sse4_1", "sse2"),
    "aarch64": ("sve", "asimd"),
}


@functools.cache
def describe_vectors(cpuinfo: Path = Path("/proc/cpuinfo"), machine: str | None = None) -> str:
    """Return the machine and its widest vectors: ``x86_64/avx512f``, ``aarch64/asimd``.

    Native kernels, and their results, differ by these.

    Args:
        cpuinfo: Linux' list of processor features; on other systems the text ends with the slash.
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
