"""Cache folders of the user. Each has a name and may be removed at any time.

``conform cache`` lists and prunes them; docs/incremental.md describes them.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CACHES = {
    "results": "results that conform run --incremental reuses",
    "metal-generated": "code that Inductor generated for partitions",
    "metal-host": "shaders and kernels of Metal, compiled for this host",
    "mlx-schema": "modules that executorch's wheel lacks of its MLX delegate",
    "releases": "environments of conform releases",
    "workers": "logs and locks of running workers of a cluster",
    "templates": "compiled templates of reports",
}
"""The content of each cache by its name."""

# Running workers have their locks in here.
_IN_USE = frozenset({"workers"})


def cache_folder(name: str) -> Path:
    """Return the folder of a cache, which may not exist yet.

    Args:
        name: one of :data:`CACHES`.

    Raises:
        KeyError: there is no such cache.
    """
    import platformdirs

    if name not in CACHES:
        raise KeyError(name)
    return Path(platformdirs.user_cache_path("executorch-conform")) / name


@dataclass(frozen=True)
class CacheFolderEntry:
    """A file or folder directly in a cache.

    Attributes:
        path: its path.
        size: bytes of all its files.
        unused: seconds since one of its files was last read or written, according to the file
            system.
    """

    path: Path
    size: int
    unused: float


def list_entries(name: str) -> list[CacheFolderEntry]:
    """List the entries of a cache, the longest unused first; files that vanish are skipped.

    Raises:
        KeyError: there is no such cache.
    """
    folder = cache_folder(name)
    found = [] if not folder.is_dir() else [_entry(path) for path in folder.iterdir()]
    return sorted(found, key=lambda entry: -entry.unused)


def prune(name: str, *, max_size: float | None, max_age: float | None) -> list[CacheFolderEntry]:
    """Remove entries of a cache, the longest unused first, and return them.

    Args:
        name: one of :data:`CACHES`.
        max_size: largest total size in bytes; None for no limit.
        max_age: longest time in seconds that an entry may be unused; None for no limit.

    Raises:
        KeyError: there is no such cache.
    """
    if name in _IN_USE:
        return []
    left = list_entries(name)
    size, removed = sum(entry.size for entry in left), []
    for entry in left:
        too_old = max_age is not None and entry.unused > max_age
        too_large = max_size is not None and size > max_size
        if not (too_old or too_large):
            continue
        if entry.path.is_dir():
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            entry.path.unlink(missing_ok=True)
        if not entry.path.exists():
            size -= entry.size
            removed.append(entry)
    return removed


def _entry(path: Path) -> CacheFolderEntry:
    size, used = 0, 0.0
    with contextlib.suppress(OSError):
        used = path.lstat().st_mtime  # an empty folder has a time, too
    for file in _files(path):
        with contextlib.suppress(OSError):
            state = file.stat(follow_symlinks=False)
            size += state.st_size
            used = max(used, state.st_mtime, state.st_atime)
    return CacheFolderEntry(path, size, max(0.0, time.time() - used))


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir() and not path.is_symlink():
        yield from (each for each in path.rglob("*") if not each.is_dir() or each.is_symlink())
    else:
        yield path
