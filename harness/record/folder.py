"""The folder of a run: ``run.json`` and ``cells.jsonl``, written and loaded. Imports no torch.

``run.json`` is written when the run starts (``complete: false``) and replaced when it ends;
``cells.jsonl`` gets one line as each cell ends. A run that was killed therefore loads, and
says that it is incomplete and which expected cells have no record.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec

from harness.errors import RunUnreadable, RunUnwritable
from harness.record import contradictions
from harness.record.cell import Cell
from harness.record.migrations import upgrade_run
from harness.record.run import SCHEMA_VERSION, Run, RunInfo

RUN_FILE = "run.json"
CELLS_FILE = "cells.jsonl"
SAVED = "kept"
"""The folder of saved programs, inputs and outputs of cells, in a run folder."""

# Only a line with this many successive digits can contain an integer of more than 64 bits.
_LONG = re.compile(rb"[0-9]{19}")

#: Exceptions on reading a damaged record: no JSON, wrong types, or nested too deeply.
NOT_A_RECORD = (
    msgspec.MsgspecError,
    UnicodeDecodeError,
    AttributeError,
    TypeError,
    RecursionError,
)


def saved_folder(cell: str) -> str:
    """The folder of a cell's saved files, relative to the run folder; its name is valid in any file
    system and link."""
    plain = re.sub(r"[^A-Za-z0-9@+.-]+", "_", cell)
    return f"{SAVED}/{plain[:120]}-{hashlib.sha256(cell.encode()).hexdigest()[:6]}"


class RunWriter:
    """Appends a run to a folder; used by one process only.

    Each line is flushed when written, so that records survive a kill. A full disk raises
    once and leaves the lines already written intact.
    """

    def __init__(self, path: Path, info: RunInfo) -> None:
        """Create the folder and write ``run.json``.

        Raises:
            RunUnwritable: the folder cannot be created, or already holds a run.
        """
        self.path = path
        self.info = info
        check_writable(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._write_info()
            # Unbuffered: a line is on disk when append returns, and nothing is left to close.
            self._cells: IO[bytes] = (path / CELLS_FILE).open("xb", buffering=0)
            _lock(self._cells)
            self._records = 0
        except OSError as error:
            raise RunUnwritable(
                f"cannot write the run folder {path}: {error.strerror}; choose another folder"
            ) from error

    @classmethod
    def resume(cls, run: Run, info: RunInfo) -> RunWriter:
        """Resume a stopped run: append to its records, and drop a line that was incomplete when it
        stopped.

        Args:
            run: the run as :func:`load` returns it without such a line.
            info: its description from now on.

        Raises:
            RunUnwritable: the folder cannot be written, or another process is still writing to it.
        """
        writer = cls.__new__(cls)
        writer.path, writer.info, writer._records = run.path, info, len(run.cells)
        file = run.path / CELLS_FILE
        try:
            # A run that was killed before its first record may have none.
            file.touch()
            writer._cells = file.open("r+b", buffering=0)
            if not _lock(writer._cells):
                raise RunUnwritable(f"another process is still writing to {run.path}")
            content = file.read_bytes()
            writer._cells.truncate(content.rfind(b"\n") + 1)
            writer._cells.seek(0, os.SEEK_END)
            writer._write_info()
        except OSError as error:
            raise RunUnwritable(f"cannot append to {file}: {error.strerror}") from error
        return writer

    def append(self, cell: Cell) -> None:
        """Write one record.

        Raises:
            RunUnwritable: the disk is full or the folder is gone.
        """
        line = cell.to_json().encode() + b"\n"
        end = self._cells.tell()
        try:
            written = self._cells.write(line)
            if written < len(line):
                # A disk that fills up in the middle takes part of the line, and says so only at
                # the next write.
                self._cells.truncate(end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise RunUnwritable(
                f"cannot append to {self.path / CELLS_FILE}: {error.strerror}"
            ) from error
        self._records += 1

    def close(
        self, *, exit_status: int | None, ended: str | None = "", complete: bool = True
    ) -> None:
        """Mark the run as ended now; by itself unless an argument states otherwise."""
        self._cells.close()
        self.info.ended = format_now() if ended == "" else ended
        self.info.exit_status = exit_status
        self.info.complete = complete
        self.info.records = self._records
        self.save()

    def save(self) -> None:
        """Rewrite ``run.json`` after ``info`` has changed.

        Raises:
            RunUnwritable: the disk refuses.
        """
        try:
            self._write_info()
        except OSError as error:
            raise RunUnwritable(f"cannot write {self.path / RUN_FILE}: {error.strerror}") from error

    def _write_info(self) -> None:
        content = msgspec.json.format(msgspec.json.encode(self.info), indent=1)
        write_atomically(self.path / RUN_FILE, content)


def _lock(file: IO[bytes]) -> bool:
    """Lock a file until this process ends; False if another process holds the lock.

    On a system without such locks it excludes no process.
    """
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file atomically: a reader, or a kill in the middle, never sees half of it.

    An existing symbolic link is replaced, never followed.

    Raises:
        OSError: the folder or the disk refuses; the previous content is unchanged.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # Left by a killed process with our id. Created exclusively, so that no link is followed.
        draft.unlink(missing_ok=True)
        with draft.open("xb") as file:
            file.write(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def name_new_folder(root: Path) -> Path:
    """Return a name for the folder of a run that starts now; nothing is created."""
    stamp = format_now().partition("+")[0].replace(":", "").replace("-", "")
    return root / f"{stamp}-{os.getpid()}"


def check_writable(folder: Path) -> None:
    """Check early that a run folder can be created; nothing is created.

    Raises:
        RunUnwritable: it already holds a run, or cannot be created.
    """
    if (folder / RUN_FILE).exists() or (folder / CELLS_FILE).exists():
        raise RunUnwritable(f"{folder} already holds a run; choose another folder or remove it")
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        problem = "is not a folder" if not existing.is_dir() else "is not writable"
        raise RunUnwritable(
            f"cannot write the run folder {folder}: {existing} {problem}; choose another folder"
        )


def load(path: Path | str, *, torn: bool = True) -> Run:
    """Load a run folder.

    A line of ``cells.jsonl`` that is truncated, garbled or contradicts itself
    (:mod:`harness.record.contradictions`) does not hide the others: it becomes an entry of
    ``Run.damage`` and makes the run incomplete. So does what ``run.json`` cannot say of itself.

    Args:
        path: the folder.
        torn: whether a last line without an end counts; else it is left out, as if the writer had
            been killed before it.

    Raises:
        RunUnreadable: no such folder, no ``run.json``, not valid, or no schema of this version.
    """
    path = Path(path)
    file = path / RUN_FILE
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise RunUnreadable(
            f"{path} is not a run folder: cannot read {RUN_FILE} ({error.strerror})"
        ) from error
    try:
        record = msgspec.json.decode(raw)
        upgrade_run(record)
        info = msgspec.convert(record, type=RunInfo)
    except NOT_A_RECORD as error:
        raise RunUnreadable(f"{file} is not a run record: {error}") from error
    check_schema(file, info.schema)
    cells: list[Cell] = []
    damage: list[str] = []
    for number, line in _lines(path / CELLS_FILE):
        if not torn and not line.endswith(b"\n"):
            continue
        try:
            cell = Cell.from_json(line)
        except NOT_A_RECORD as error:
            damage.append(f"{CELLS_FILE} line {number} is not a cell record: {error}")
            continue
        contradiction = contradictions.find_cell_contradiction(cell)
        if _LONG.search(line) and contradictions.has_long_integer(msgspec.to_builtins(cell)):
            contradiction = "has an integer of more than 64 bits"
        if contradiction is None:
            cells.append(cell)
        else:
            damage.append(
                f"{CELLS_FILE} line {number} contradicts itself: {cell.id} {contradiction}"
            )
    if info.records is not None and len(cells) != info.records and not damage:
        # A line that is gone as a whole leaves no other trace where a cell has several records.
        damage.append(f"{CELLS_FILE} has {len(cells)} records, the run wrote {info.records}")
    damage += [
        f"{RUN_FILE} contradicts itself: {line}"
        for line in contradictions.find_run_contradictions(info, record, cells)
    ]
    return Run(path=path, info=info, cells=cells, damage=damage)


def check_schema(file: Path, schema: int) -> None:
    """Refuse records of an unknown schema version.

    Raises:
        RunUnreadable: the schema is newer, or its number never existed.
    """
    if schema < 1:
        raise RunUnreadable(f"{file} has schema {schema}, and the first schema is 1")
    if schema > SCHEMA_VERSION:
        raise RunUnreadable(
            f"{file} has schema {schema}, this version reads up to {SCHEMA_VERSION}; "
            "update the project"
        )


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunUnreadable(f"cannot read {path}: {error.strerror}") from error


def find_latest(root: Path) -> Path:
    """Return the newest run folder below ``root``.

    Raises:
        RunUnreadable: there is none.
    """
    runs = sorted(root.glob(f"*/{RUN_FILE}"), key=lambda file: file.stat().st_mtime)
    if not runs:
        raise RunUnreadable(f"no run below {root}; make one with: conform run")
    return runs[-1].parent


def format_now() -> str:
    """The current time, UTC, ISO 8601 with seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")
