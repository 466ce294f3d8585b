"""The compact copy of a run: a Parquet file with a row per cell, which loads fast.

The file name has a hash of the run folder's name and of the sizes and times of its two files. If a
run changes, its copy no longer matches, and the run is read again.
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
# Part of the file name: copies with other outcomes, columns or rules for damage (the number) are
# not read.
_LAYOUT = "|".join(["2", *(each.value for each in OUTCOMES), *NAMES, *NUMBERS, *WORDS])
_ERROR = 300
_DRAFT_SECONDS = 3600
_CODES = {outcome: code for code, outcome in enumerate(OUTCOMES)}


class PartInfo(msgspec.Struct, kw_only=True):
    """Facts about a run, or about one part of a merged run.

    ``name`` is empty for a run that is not merged. Its cells are ``cells`` rows from row ``first``
    on. ``names`` is a hash of the names of the cells: runs with the same cells share one list.
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
class CompactRun:
    """A run, or one part of a merged run, whose columns can be read from a file or from memory."""

    folder: Path
    info: PartInfo
    file: Path | None
    table: pa.Table | None

    @property
    def name(self) -> str:
        """Name of the folder, with the name of the part."""
        return self.folder.name + (f" ({self.info.name})" if self.info.name else "")

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Read some columns, one row per cell.

        Raises:
            RunUnreadable: the run changed since it was opened.
        """
        if self.table is None and self.file is not None:
            try:
                with pq.ParquetFile(self.file) as opened:
                    return self._mine(opened.read(columns=list(columns), use_threads=False))
            except (OSError, pa.ArrowException):
                infos, self.table = build(load(self.folder))
                if self.info not in infos:
                    raise RunUnreadable(
                        f"{self.folder} changed while the history was read; start again"
                    ) from None
        assert self.table is not None
        return self._mine(self.table.select(list(columns)))

    def _mine(self, table: pa.Table) -> pa.Table:
        return table.slice(self.info.first, self.info.cells)


def open_copies(folder: Path, store: Path | None) -> tuple[list[CompactRun], str]:
    """Open the compact copy of a run; write a new one if none matches.

    Args:
        folder: the run folder.
        store: folder of the copies; None to keep this one in memory.

    Returns:
        The copy, or one for each part of a merged run; and the reason why it could not be
        written, or an empty text.

    Raises:
        RunUnreadable: the run cannot be loaded.
    """
    # Computed before reading: if lines are appended meanwhile, the next call reads the run again.
    file = store and store / _file_name(folder)
    if file is not None and (infos := _read_infos(file)) is not None:
        return [CompactRun(folder, part, file, None) for part in infos], ""
    infos, table = build(load(folder))
    problem = _write(table, file) if file is not None else ""
    if file is None or problem:
        return [CompactRun(folder, part, None, table) for part in infos], problem
    _remove_older_copies(file)
    return [CompactRun(folder, part, file, None) for part in infos], ""


def build(run: Run) -> tuple[list[PartInfo], pa.Table]:
    """Build the compact form of a loaded run, by part and then sorted by cell."""
    parts = _parts(run)
    rows: list[summary.CellRow] = []
    for part, mine in parts:
        mine.sort(key=lambda row: (row.case, row.target))
        part.first, part.cells, part.names = len(rows), len(mine), _digest(mine)
        part.missing = sum(row.cell is None for row in mine)
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
    infos = [part for part, _ in parts]
    return infos, pa.table(arrays, metadata={_META: msgspec.json.encode(infos)})


def _parts(run: Run) -> list[tuple[PartInfo, list[summary.CellRow]]]:
    """Split a merged run into its parts, each with its cells."""
    info = run.info
    whole = PartInfo(
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
                incompleteness=[] if part.complete else ["this part did not finish"],
            ),
            list[summary.CellRow](),
        )
        for part in info.merged_from
    }  # fmt: skip
    for row in summary.RunSummary.from_run(run).rows:
        made[_part_of(row, info)][1].append(row)
    for part, rows in made.values():
        if any(row.cell is None for row in rows):
            part.incompleteness.append("expected cells have no record")
    # All parts share the damaged file.
    first = next(iter(made.values()))[0]
    first.damage, first.incompleteness = run.damage[:20], first.incompleteness + run.damage[:20]
    return list(made.values())


def _part_of(row: summary.CellRow, info: RunInfo) -> str:
    names = [part.name for part in info.merged_from]
    if row.cell is not None and row.cell.merged_part in names:
        return str(row.cell.merged_part)
    # An expected cell without a record belongs to a part that has its target, preferably one that
    # did not finish.
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
    # Hashed, because a folder's name may already have the largest length of a file name.
    return f"{_name_hash(folder)}-{state}.parquet"


def _name_hash(folder: Path) -> str:
    return hashlib.sha256(os.fsencode(folder.name)).hexdigest()[:32]


def _read_infos(file: Path) -> list[PartInfo] | None:
    try:
        with pq.ParquetFile(file) as opened:
            return msgspec.json.decode(opened.schema_arrow.metadata[_META], type=list[PartInfo])
    except (OSError, pa.ArrowException, msgspec.MsgspecError, KeyError, TypeError):
        return None  # missing or truncated: read the run itself


def _write(table: pa.Table, file: Path) -> str:
    # A unique draft and one rename: readers never see a partial file, whatever other writers do.
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


def remove_stale_copies(store: Path, folders: Iterable[Path]) -> None:
    """Remove copies of runs that no longer exist, and drafts of killed writers."""
    known = {_name_hash(folder) for folder in folders}
    with contextlib.suppress(OSError):
        for file in store.iterdir():
            gone = file.suffix == ".parquet" and file.name.partition("-")[0] not in known
            # A draft of a running process is younger.
            old = file.suffix == ".draft" and time.time() - file.stat().st_mtime > _DRAFT_SECONDS
            if gone or old:
                file.unlink(missing_ok=True)


def _remove_older_copies(file: Path) -> None:
    for other in file.parent.glob(f"{file.name.partition('-')[0]}-*.parquet"):
        if other != file:
            with contextlib.suppress(OSError):
                other.unlink()
