"""The map of a run: which lines of the vendors' code each cell executes, as an SQLite database.

Cells share most of what they execute: the arcs of a file are stored once and cells refer to them.
An *arc* is a pair of line numbers, executed in this order; a negative number enters or leaves the
function that begins at this line. Workers of a run write to one map.
"""

from __future__ import annotations

import array
import hashlib
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from harness.errors import ConformError

MAP_FILE = "coverage.db"
"""Name of the map in a run folder."""

Arc: TypeAlias = tuple[int, int]

_VERSION = 1
_WAIT_SECONDS = 60.0  # for other workers of the run
_SCHEMA = """
CREATE TABLE IF NOT EXISTS file (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL);
CREATE TABLE IF NOT EXISTS arcs (
    id INTEGER PRIMARY KEY, file INTEGER NOT NULL, digest BLOB NOT NULL, packed BLOB NOT NULL,
    UNIQUE (file, digest)
);
CREATE TABLE IF NOT EXISTS cell (name TEXT PRIMARY KEY, arcs BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS once (file INTEGER NOT NULL, line INTEGER NOT NULL, UNIQUE (file, line));
"""


class MapUnreadable(ConformError):
    """A run has no map, or a damaged one."""


class CoverageMap:
    """A map, open for reading or writing; a context manager.

    Args:
        path: the file.
        create: create it if it is missing, and write to it.

    Raises:
        MapUnreadable: it is missing, damaged, or of another version.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        if not create and not path.is_file():
            raise MapUnreadable(
                f"{path.parent} has no {MAP_FILE}; record one with: conform coverage record"
            )
        self._path = path
        mode = "rwc" if create else "ro"
        with self._errors():
            self._database = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode={mode}",
                uri=True,
                timeout=_WAIT_SECONDS,
                isolation_level=None,
            )
            if create:
                self._database.executescript(f"PRAGMA user_version = {_VERSION}; {_SCHEMA}")
            (version,) = self._database.execute("PRAGMA user_version").fetchone()
        if version != _VERSION:
            raise MapUnreadable(f"{path} has version {version}; this program reads {_VERSION}")
        self._files: dict[str, int] = {}
        self._arcs: dict[tuple[int, bytes], int] = {}

    def __enter__(self) -> CoverageMap:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def add_cell(self, cell: str, arcs: Mapping[str, Iterable[Arc]]) -> None:
        """Store what a cell executes, in place of an earlier recording.

        Args:
            cell: id of the cell.
            arcs: executed arcs by name of the file.
        """
        with self._transaction():
            ids = array.array("I", sorted(self._store_arcs(*each) for each in arcs.items()))
            self._database.execute(
                "INSERT OR REPLACE INTO cell VALUES (?, ?)", (cell, zlib.compress(ids.tobytes(), 1))
            )

    def add_once(self, functions: Iterable[tuple[str, int]]) -> None:
        """Store functions that run once in a process, whichever cell comes first: at an import, or
        behind a cache.

        Args:
            functions: name of the file and first line of each.
        """
        with self._transaction():
            self._database.executemany(
                "INSERT OR IGNORE INTO once VALUES (?, ?)",
                [(self._find_file(file), line) for file, line in functions],
            )

    def read_cells(self) -> Iterator[tuple[str, array.array[int]]]:
        """Yield each cell with the ids of the arcs that it executes."""
        with self._errors():
            for name, packed in self._database.execute("SELECT name, arcs FROM cell"):
                yield name, array.array("I", zlib.decompress(packed))

    def read_arcs(self, file: str | None = None) -> Iterator[tuple[int, str, set[Arc]]]:
        """Yield the id of each stored set of arcs, the name of its file, and the arcs.

        Args:
            file: name of the only file to read; default: all.
        """
        where, values = ("WHERE file.name = ?", (file,)) if file is not None else ("", ())
        query = f"SELECT arcs.id, name, packed FROM arcs JOIN file ON file.id = file {where}"
        with self._errors():
            for number, name, packed in self._database.execute(query, values):
                flat = array.array("i", zlib.decompress(packed))
                yield number, name, set(zip(flat[::2], flat[1::2], strict=True))

    def read_once(self) -> set[tuple[str, int]]:
        """Return the functions of :meth:`add_once`."""
        with self._errors():
            query = "SELECT name, line FROM once JOIN file ON file.id = file"
            return set(self._database.execute(query))

    def _store_arcs(self, file: str, arcs: Iterable[Arc]) -> int:
        flat = array.array("i", [line for arc in sorted(arcs) for line in arc]).tobytes()
        key = self._find_file(file), hashlib.blake2b(flat, digest_size=16).digest()
        if key not in self._arcs:
            self._database.execute(
                "INSERT OR IGNORE INTO arcs (file, digest, packed) VALUES (?, ?, ?)",
                (*key, zlib.compress(flat)),
            )
            query = "SELECT id FROM arcs WHERE file = ? AND digest = ?"
            (self._arcs[key],) = self._database.execute(query, key).fetchone()
        return self._arcs[key]

    def _find_file(self, name: str) -> int:
        if name not in self._files:
            self._database.execute("INSERT OR IGNORE INTO file (name) VALUES (?)", (name,))
            query = "SELECT id FROM file WHERE name = ?"
            (self._files[name],) = self._database.execute(query, (name,)).fetchone()
        return self._files[name]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Write all or nothing; other workers wait."""
        with self._errors():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._database.execute("ROLLBACK")
                self._files.clear()  # what they name may be gone
                self._arcs.clear()
                raise
            self._database.execute("COMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, zlib.error) as error:
            raise MapUnreadable(f"{self._path}: {error}") from error


def list_lines(arcs: Iterable[Arc]) -> set[int]:
    """Return the lines of arcs."""
    return {line for arc in arcs for line in arc if line > 0}
