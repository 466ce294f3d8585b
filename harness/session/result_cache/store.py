"""The store of results: a folder, or any place that fsspec knows a URL of, shared by whoever can
reach it.

An entry is a file named by its key, written once as a whole; two that write the same key write the
same result. Nothing that is wrong with the store is an error of a run: what cannot be read is not
there, what cannot be written is said once.
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
# A draft of a writer that was killed; one that lives is done within seconds.
_DRAFT_SECONDS = 3600.0


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a store.

    Attributes:
        cells: entries of cells.
        files: all files.
        size: of all of them, in bytes.
        oldest: seconds since the one that was longest unused was used, as far as the place tells;
            None in an empty store.
    """

    cells: int
    files: int
    size: int
    oldest: float | None


def find_default_place() -> str:
    """Where results are kept unless a place is named: in the user's cache folder."""
    return str(cache_folder("results"))


class ResultStore:
    """Results by key, in one place.

    Args:
        place: a folder, or a URL such as ``s3://bucket/results``.

    Raises:
        UsageError: nothing that is installed can reach such a place.
    """

    def __init__(self, place: str) -> None:
        import fsspec

        self.place = place
        try:
            self._files, root = fsspec.url_to_fs(os.path.expanduser(place))
        except (ImportError, ValueError) as error:
            raise UsageError(f"--result-cache {place}: {error}") from error
        except Exception as error:  # whatever a driver makes of an address or of credentials
            raise UsageError(f"--result-cache {place}: {type(error).__name__}: {error}") from error
        self._root = str(root).rstrip("/")
        self._is_local = "file" in _protocols(self._files)
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._writing: list[Future[None]] = []
        self.problem = ""

    def find(self, keys: Iterable[str]) -> dict[str, StoredResult]:
        """The entries of these keys, those that are there and whole."""
        paths = {self._path(_CELLS, key): key for key in keys}
        found = {}
        for path, content in self._read(list(paths)):
            entry = StoredResult.from_bytes(content, key := paths[path])
            if entry is not None:
                found[key] = entry
                if self._is_local:
                    with contextlib.suppress(OSError):  # of others, or read-only
                        os.utime(path)
        return found

    def put(self, entry: StoredResult) -> None:
        """Store an entry, in the background where the place is not on this machine."""
        self._put(self._path(_CELLS, entry.key), entry.to_bytes())

    def listing(self, key: str) -> bytes | None:
        """What was noted under a key by :meth:`note`; None where nothing was."""
        return next((content for _, content in self._read([self._path(_LISTINGS, key)])), None)

    def note(self, key: str, content: bytes) -> None:
        """Keep what a session collected."""
        self._put(self._path(_LISTINGS, key), content)

    def flush(self) -> str:
        """Wait until all is written.

        Returns:
            Why something could not be; empty where all could.
        """
        for each in self._writing:
            each.result()
        self._writing.clear()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        return self.problem

    def usage(self) -> Usage:
        """What it holds.

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
        """Remove what was longest unused, as far as the place tells of use and not of writing.

        Args:
            max_size: bytes that may stay; None for any number.
            max_age: seconds that an entry may have been unused; None for any number.

        Returns:
            What was removed.

        Raises:
            UsageError: the place cannot be listed, or refuses to remove.
        """
        files = sorted(self._list(), key=lambda file: file[2])  # the last used first
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
                continue  # somebody else did
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
            return  # a place that refused once is not asked for each of thousands of cells
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
                self._files.pipe_file(path, content)  # an object appears as a whole
        except Exception as error:
            self._fail("write", error)

    def _fail(self, what: str, error: Exception) -> None:
        with self._lock:
            self.problem = self.problem or f"cannot {what} results in {self.place}: {error}"

    def _list(self) -> Iterator[tuple[str, int, float]]:
        """Path, bytes, and seconds since it was used, of each file that is the store's own."""
        now = time.time()
        for kind in (_CELLS, _LISTINGS):
            try:
                found = self._files.find(f"{self._root}/{kind}", detail=True)
            except FileNotFoundError:
                continue
            except Exception as error:
                raise UsageError(f"cannot list {self.place}: {error}") from error
            for path, facts in found.items():
                yield str(path), int(facts.get("size") or 0), now - _moment(facts, now)


def _protocols(files: Any) -> tuple[str, ...]:
    named = files.protocol
    return (named,) if isinstance(named, str) else tuple(named)


def _replace(path: str, content: bytes) -> None:
    """As a whole, also where writers on several machines share the folder."""
    draft = Path(path).with_name(f".{secrets.token_hex(8)}")
    draft.parent.mkdir(parents=True, exist_ok=True)
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _moment(facts: dict[str, Any], now: float) -> float:
    """When a file was used last, in seconds of the clock, by what its place tells of it."""
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
