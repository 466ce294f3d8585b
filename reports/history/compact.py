"""The compact copy of one run: a Parquet file with a row per cell, so that a reread is quick.

The file's name holds the run folder's name and the sizes and times of its two files. A run that
changed therefore has no copy, and is read again.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import RunUnreadable
from harness.record.cell import Cell
from harness.record.folder import CELLS_FILE, RUN_FILE, load
from harness.record.host import Environment
from harness.record.run import Run, RunInfo
from reports import summary, text
from reports.numbers import was_lowered
from reports.outcome import CellOutcome

#: Outcomes by their code in the files.
OUTCOMES = list(CellOutcome)
NAMES = ["case", "target", "op", "suite"]
NUMBERS = ["sqnr_db", "bound_used", "max_abs", "seconds", "program_bytes",
           "planned_memory", "delegates", "delegated_nodes", "undelegated_nodes"]  # fmt: skip
WORDS = ["stage", "error", "runtime"]
_META = b"conform"
# Another order of outcomes, other columns, or other rules of what counts as damage (the number)
# make another file name: old copies are not read.
_LAYOUT = "|".join(["2", *(each.value for each in OUTCOMES), *NAMES, *NUMBERS, *WORDS])
_ERROR = 300
_DRAFT_SECONDS = 3600
_CODES = {outcome: code for code, outcome in enumerate(OUTCOMES)}


class Night(msgspec.Struct, kw_only=True):
    """What is kept of a run, or of one part of a merged run, besides its cells.

    ``name`` is empty for a run that is not merged. Its cells are ``cells`` rows from ``first``
    on; ``names`` identifies them, so that nights with the same cells share one list of names.
    """

    name: str
    started: str
    seed: int
    environment: Environment
    expected: int
    missing: int
    damage: list[str]
    incompleteness: list[str]
    first: int
    cells: int
    names: str


@dataclass
class Copy:
    """A run, or a part of one, ready to be read: from its file, or from memory without one."""

    folder: Path
    night: Night
    file: Path | None
    table: pa.Table | None

    @property
    def name(self) -> str:
        """The folder's name, with that of the part."""
        return self.folder.name + (f" ({self.night.name})" if self.night.name else "")

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Some columns, a row a cell.

        Raises:
            RunUnreadable: the run changed since it was opened.
        """
        if self.table is None and self.file is not None:
            try:
                with pq.ParquetFile(self.file) as opened:
                    return self._mine(opened.read(columns=list(columns), use_threads=False))
            except (OSError, pa.ArrowException):
                nights, self.table = build(load(self.folder))
                if self.night not in nights:
                    raise RunUnreadable(
                        f"{self.folder} changed while the history was read; start again"
                    ) from None
        assert self.table is not None
        return self._mine(self.table.select(list(columns)))

    def _mine(self, table: pa.Table) -> pa.Table:
        return table.slice(self.night.first, self.night.cells)


def open_copies(folder: Path, store: Path | None) -> tuple[list[Copy], str]:
    """The compact copy of a run, made when there is none that fits.

    Args:
        folder: the run folder.
        store: where the copies are; None to keep this one in memory.

    Returns:
        The copy, or one for each part of a merged run; and why it could not be written, or
        nothing.

    Raises:
        RunUnreadable: the run cannot be loaded.
    """
    # Looked at before the run is read: lines appended meanwhile make the next reread.
    file = store and store / _file_name(folder)
    if file is not None and (nights := _read_nights(file)) is not None:
        return [Copy(folder, night, file, None) for night in nights], ""
    nights, table = build(load(folder))
    problem = _write(table, file) if file is not None else ""
    if file is None or problem:
        return [Copy(folder, night, None, table) for night in nights], problem
    _forget_older(file)
    return [Copy(folder, night, file, None) for night in nights], ""


def build(run: Run) -> tuple[list[Night], pa.Table]:
    """The compact form of a loaded run, by part and then sorted by cell."""
    parts = _parts(run)
    rows: list[summary.CellRow] = []
    for night, mine in parts:
        mine.sort(key=lambda row: (row.case, row.target))
        night.first, night.cells, night.names = len(rows), len(mine), _digest(mine)
        night.missing = sum(row.cell is None for row in mine)
        rows += mine
    seen: dict[str, int] = {}
    for cell in run.cells:
        seen[cell.id] = seen.get(cell.id, 0) | 1 << _CODES[CellOutcome.from_cell(cell)]
    arrays: dict[str, Any] = {
        "case": pa.array([row.case for row in rows], pa.string()),
        **{
            name: pa.array([getattr(row, name) for row in rows], pa.string()).dictionary_encode()
            for name in NAMES[1:]
        },
        "outcome": pa.array([_CODES[row.outcome] for row in rows], pa.uint8()),
        "seen": pa.array([seen.get(row.id, 0) for row in rows], pa.uint32()),
    }
    numbers = [_numbers(row.cell) for row in rows]
    for position, name in enumerate(NUMBERS):
        arrays[name] = pa.array([item[position] for item in numbers], pa.float64())
    for name in WORDS:
        words = [_word(row.cell, name) for row in rows]
        arrays[name] = pa.array(words, pa.string()).dictionary_encode()
    nights = [night for night, _ in parts]
    return nights, pa.table(arrays, metadata={_META: msgspec.json.encode(nights)})


def _parts(run: Run) -> list[tuple[Night, list[summary.CellRow]]]:
    """The run, or the parts it was merged from, each with its cells."""
    info = run.info
    whole = Night(
        name="", started=info.started, seed=info.seed, environment=info.environment,
        expected=len(info.expected), missing=0, damage=run.damage[:20],
        incompleteness=[text.line(item, 300) for item in run.incompleteness[:20]],
        first=0, cells=0, names="",
    )  # fmt: skip
    if not info.merged_from:
        return [(whole, summary.RunSummary.from_run(run).rows)]
    made = {
        part.name: (
            msgspec.structs.replace(
                whole, name=part.name, started=part.started, seed=part.seed,
                environment=part.environment, expected=part.expected, damage=[],
                incompleteness=[] if part.complete else ["this part did not end by itself"],
            ),
            list[summary.CellRow](),
        )
        for part in info.merged_from
    }  # fmt: skip
    for row in summary.RunSummary.from_run(run).rows:
        made[_part_of(row, info)][1].append(row)
    for night, rows in made.values():
        if any(row.cell is None for row in rows):
            night.incompleteness.append("expected cells have no record")
    # Damage is of the file that all parts share.
    first = next(iter(made.values()))[0]
    first.damage, first.incompleteness = run.damage[:20], first.incompleteness + run.damage[:20]
    return list(made.values())


def _part_of(row: summary.CellRow, info: RunInfo) -> str:
    names = [part.name for part in info.merged_from]
    if row.cell is not None and row.cell.merged_part in names:
        return str(row.cell.merged_part)
    # An expected cell without a record: of a part that has its target, if possible one that
    # did not end.
    having = [part for part in info.merged_from if row.target in part.targets]
    broken = [part for part in having if not part.complete]
    return (broken or having or info.merged_from)[0].name


def _digest(rows: list[summary.CellRow]) -> str:
    names = hashlib.sha256()
    for row in rows:
        for value in (row.case, row.target, row.op, row.suite):
            names.update(value.encode() + b"\0")
    return names.hexdigest()


def _numbers(cell: Cell | None) -> list[float]:
    if cell is None:
        return [math.nan] * len(NUMBERS)
    taken = cell.delegation
    lowered = was_lowered(taken)
    optional = [
        summary.worst_sqnr(cell),
        summary.worst_bound_used(cell),
        summary.worst_max_abs(cell),
        cell.seconds if cell.seconds > 0 else None,
        cell.program_bytes or None,
        sum(cell.planned_memory) or None,
        taken.delegates if lowered else None,
        taken.delegated_nodes if lowered else None,
        taken.undelegated_nodes if lowered else None,
    ]
    return [math.nan if value is None else float(value) for value in optional]


def _word(cell: Cell | None, name: str) -> str | None:
    value = getattr(cell, name) if cell is not None else None
    return text.line(value, _ERROR) if value else None


def _file_name(folder: Path) -> str:
    parts = [_LAYOUT]
    for name in (RUN_FILE, CELLS_FILE):
        try:
            found = (folder / name).stat()
        except OSError:
            parts.append("none")
        else:
            parts.append(f"{found.st_size} {found.st_mtime_ns}")
    state = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    # Hashed, because a folder's name may be as long as a file's name can be.
    return f"{_name_hash(folder)}-{state}.parquet"


def _name_hash(folder: Path) -> str:
    return hashlib.sha256(os.fsencode(folder.name)).hexdigest()[:32]


def _read_nights(file: Path) -> list[Night] | None:
    try:
        with pq.ParquetFile(file) as opened:
            return msgspec.json.decode(opened.schema_arrow.metadata[_META], type=list[Night])
    except (OSError, pa.ArrowException, msgspec.MsgspecError, KeyError, TypeError):
        return None  # not there, or cut off: the run itself is read instead


def _write(table: pa.Table, file: Path) -> str:
    # A name of its own and one rename: two writers leave the same file, a reader sees it whole.
    draft = file.with_name(f".{uuid.uuid4().hex}.draft")
    try:
        file.parent.mkdir(exist_ok=True)
        pq.write_table(table, draft, compression="zstd")
        draft.replace(file)
    except (OSError, pa.ArrowException) as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        return str(getattr(error, "strerror", None) or error)
    return ""


def forget_gone(store: Path, folders: Iterable[Path]) -> None:
    """Remove copies of runs that are gone, and what killed writers left."""
    known = {_name_hash(folder) for folder in folders}
    with contextlib.suppress(OSError):
        for file in store.iterdir():
            gone = file.suffix == ".parquet" and file.name.partition("-")[0] not in known
            # A draft of another process lives for a second.
            old = file.suffix == ".draft" and time.time() - file.stat().st_mtime > _DRAFT_SECONDS
            if gone or old:
                file.unlink(missing_ok=True)


def _forget_older(file: Path) -> None:
    for other in file.parent.glob(f"{file.name.partition('-')[0]}-*.parquet"):
        if other != file:
            with contextlib.suppress(OSError):
                other.unlink()
