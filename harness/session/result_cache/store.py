"""The store of results: a folder, or a URL that fsspec knows, shared by all its users.

An entry is a file named by its key and written atomically; two writers of the same key write the
same result. Problems of the store never fail a run: an unreadable entry is a miss, and a failure to
write is reported once.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from harness.cache_folders import cache_folder
from harness.errors import UsageError
from harness.session.result_cache.entry import StoredResult

_CELLS, _LISTINGS = "cells", "collections"
_AT_A_TIME = 8
# Older temporary files are of writers that were killed; a live writer needs seconds.
_DRAFT_SECONDS = 3600.0


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a store.

    Attributes:
        cells: number of entries of cells.
        files: number of all files.
        size: bytes of all files.
        oldest: seconds since the last use of the least recently used file, as far as the store
            records use; None in an empty store.
    """

    cells: int
    files: int
    size: int
    oldest: float | None


def find_default_place() -> str:
    """Return the default place of the store, in the user's cache folder."""
    return str(cache_folder("results"))


class ResultStore:
    """Results by key, in one place.

    Args:
        place: a folder, or a URL such as ``s3://bucket/results``.

    Raises:
        UsageError: no installed package can open the place.
    """

    def __init__(self, place: str) -> None:
        import fsspec

        self.place = place
        try:
            self._files, root = fsspec.url_to_fs(os.path.expanduser(place))
        except (ImportError, ValueError) as error:
            raise UsageError(f"--result-cache {place}: {error}") from error
        except Exception as error:  # drivers raise anything for a bad address or credentials
            raise UsageError(f"--result-cache {place}: {type(error).__name__}: {error}") from error
        self._root = str(root).rstrip("/")
        self._is_local = "file" in _protocols(self._files)
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._writing: list[Future[None]] = []
        self.problem = ""

    def find(self, keys: Iterable[str]) -> dict[str, StoredResult]:
        """Return the entries of these keys that exist and are intact."""
        paths = {self._path(_CELLS, key): key for key in keys}
        found = {}
        for path, content in self._read(list(paths)):
            entry = StoredResult.from_bytes(content, key := paths[path])
            if entry is not None:
                found[key] = entry
                if self._is_local:
                    with contextlib.suppress(OSError):  # owned by another user, or read-only
                        os.utime(path)
        return found

    def put(self, entry: StoredResult) -> None:
        """Store an entry; in the background if the place is not on this machine."""
        self._put(self._path(_CELLS, entry.key), entry.to_bytes())

    def load_collection(self, key: str) -> bytes | None:
        """Return the data that :meth:`store_collection` stored under a key; None without one."""
        return next((content for _, content in self._read([self._path(_LISTINGS, key)])), None)

    def store_collection(self, key: str, content: bytes) -> None:
        """Store data that a session collected."""
        self._put(self._path(_LISTINGS, key), content)

    def flush(self) -> str:
        """Wait until everything is written.

        Returns:
            Why something could not be written; empty if everything was.
        """
        for each in self._writing:
            each.result()
        self._writing.clear()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        return self.problem

    def compute_usage(self) -> Usage:
        """Return the contents of the store.

        Raises:
            UsageError: the place cannot be listed.
        """
        files = list(self._list())
        ages = [age for _, _, age in files]
        return Usage(
            cells=sum(path.startswith(f"{self._root}/{_CELLS}/") for path, _, _ in files),
            files=len(files),
            size=sum(size for _, size, _ in files),
            oldest=max(ages, default=None),
        )

    def prune(self, *, max_size: float | None = None, max_age: float | None = None) -> Usage:
        """Remove the least recently used files; by time of writing if the place does not record
        use.

        Args:
            max_size: bytes that may stay; None for no limit.
            max_age: seconds that an entry may have been unused; None for no limit.

        Returns:
            The contents that were removed.

        Raises:
            UsageError: the place cannot be listed, or refuses to remove.
        """
        files = sorted(self._list(), key=lambda file: file[2])  # most recently used first
        total, gone = 0.0, []
        for path, size, age in files:
            total += size
            is_draft = path.rpartition("/")[2].startswith(".") and age > _DRAFT_SECONDS
            too_old = max_age is not None and age > max_age
            if is_draft or too_old or (max_size is not None and total > max_size):
                gone.append((path, size, age))
        for path, _, _ in gone:
            try:
                self._files.rm_file(path)
            except FileNotFoundError:
                continue  # another process removed it
            except Exception as error:
                raise UsageError(f"cannot remove {path}: {error}") from error
        return Usage(
            cells=sum(path.startswith(f"{self._root}/{_CELLS}/") for path, _, _ in gone),
            files=len(gone),
            size=sum(size for _, size, _ in gone),
            oldest=max((age for _, _, age in gone), default=None),
        )

    def _path(self, kind: str, key: str) -> str:
        return f"{self._root}/{kind}/{key[:2]}/{key}.json"

    def _read(self, paths: list[str]) -> Iterator[tuple[str, bytes]]:
        if self._is_local:
            for path in paths:
                try:
                    with open(path, "rb") as file:
                        yield path, file.read()
                except OSError:
                    continue
            return
        try:
            there = paths and self._files.exists(self._root)
            found = self._files.cat(paths, on_error="omit") if there else {}
        except Exception as error:
            self._fail("read", error)
            return
        yield from ((path, content) for path, content in found.items() if path in set(paths))

    def _put(self, path: str, content: bytes) -> None:
        if self.problem:
            return  # after one failure, do not try again for each of thousands of cells
        if self._is_local:
            self._write(path, content)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_AT_A_TIME)
        self._writing.append(self._pool.submit(self._write, path, content))

    def _write(self, path: str, content: bytes) -> None:
        try:
            if self._is_local:
                _replace(path, content)
            else:
                self._files.pipe_file(path, content)  # object stores write atomically
        except Exception as error:
            self._fail("write", error)

    def _fail(self, what: str, error: Exception) -> None:
        with self._lock:
            self.problem = self.problem or f"cannot {what} results in {self.place}: {error}"

    def _list(self) -> Iterator[tuple[str, int, float]]:
        """Return path, bytes, and seconds since the last use of each file of the store."""
        now = time.time()
        for kind in (_CELLS, _LISTINGS):
            try:
                found = self._files.find(f"{self._root}/{kind}", detail=True)
            except FileNotFoundError:
                continue
            except Exception as error:
                raise UsageError(f"cannot list {self.place}: {error}") from error
            for path, facts in found.items():
                yield str(path), int(facts.get("size") or 0), now - _get_last_use(facts, now)


def _protocols(files: Any) -> tuple[str, ...]:
    named = files.protocol
    return (named,) if isinstance(named, str) else tuple(named)


def _replace(path: str, content: bytes) -> None:
    """Write a file atomically, also when several machines share the folder."""
    draft = Path(path).with_name(f".{secrets.token_hex(8)}")
    draft.parent.mkdir(parents=True, exist_ok=True)
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _get_last_use(facts: dict[str, Any], now: float) -> float:
    """Return the time of a file's last use in seconds since the epoch, as its place records it."""
    for name in ("mtime", "LastModified", "updated", "last_modified", "created"):
        value = facts.get(name)
        if isinstance(value, int | float):
            return float(value)
        if isinstance(value, str):
            with contextlib.suppress(ValueError):
                value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            return value.timestamp()
    return now
