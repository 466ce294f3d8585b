"""Load a folder of runs: its runs, its cells and arrays of results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
from numpy.typing import NDArray

from harness.errors import RunUnreadable, UnknownCell
from harness.record.folder import CELLS_FILE, RUN_FILE
from harness.record.target import cell_id
from reports import text
from reports.history.compact import (
    NAMES,
    NUMBERS,
    OUTCOMES,
    WORDS,
    CompactRun,
    open_copies,
    remove_stale_copies,
)
from reports.moment import parse_time

__all__ = ["ABSENT", "OUTCOMES", "History", "load"]

#: Code of a cell that a run did not select.
ABSENT = 255
#: Subfolder of the compact copies, in the folder of runs.
CACHE = ".history"


@dataclass
class History:
    """Runs in the order they started, and their cells.

    Attributes:
        folder: the folder of the runs.
        runs: a row per run, indexed 0 … in time order: ``run`` (folder name, with the part of a
            merged run), ``path``, ``started`` (UTC), ``day``, ``line`` (system and machine; only
            runs of one line are comparable), ``commit``, ``dirty``, ``seed``, ``complete``,
            ``expected``, ``missing``, ``damage``, ``notes``, ``python``, ``platform``,
            ``machine``, ``processor``, ``cores``, ``host``, ``packages`` (a dict).
        cells: a row per cell, indexed 0 …: ``id``, ``case``, ``target``, ``op``, ``suite``, from
            the newest run that has the cell.
        outcomes: runs × cells, positions in :data:`OUTCOMES`, or :data:`ABSENT`.
        problems: problems of reading runs or writing copies, one line each.
    """

    folder: Path
    runs: pd.DataFrame
    cells: pd.DataFrame
    outcomes: NDArray[np.uint8]
    problems: list[str]
    copies: list[CompactRun] = field(repr=False)
    places: list[NDArray[np.int64]] = field(repr=False)
    _known: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False)

    def metric(self, name: str) -> NDArray[np.float64]:
        """Get one metric of every cell in every run, runs × cells; NaN if missing.

        Args:
            name: ``sqnr_db`` (dB, the worst output), ``bound_used`` (error / bound, worst),
                ``max_abs``, ``seconds``, ``program_bytes``, ``planned_memory``,
                ``delegates``, ``delegated_nodes``
                or ``undelegated_nodes``.

        Raises:
            KeyError: there is no such metric.
        """
        self.read(name)
        return self._known[name]

    def read(self, *names: str) -> None:
        """Read several metrics at once, which is faster than one after the other.

        Raises:
            KeyError: there is no such metric.
        """
        if unknown := [name for name in names if name not in NUMBERS]:
            raise KeyError(f"no metric {unknown[0]!r}; there are {', '.join(NUMBERS)}")
        self._fill([name for name in names if name not in self._known], np.nan, np.float64)

    def seen_outcomes(self) -> NDArray[np.uint32]:
        """Get the outcomes of each cell in each run as bits; a cell may have several records."""
        if "seen" not in self._known:
            self._fill(["seen"], 0, np.uint32)
        return self._known["seen"]

    def series(self, name: str) -> pd.DataFrame:
        """Make a table of one cell: a row for each run that expected or recorded it.

        Columns: the columns of :attr:`runs`, ``outcome``, ``stage``, ``error``, ``runtime`` and
        every metric.

        Raises:
            UnknownCell: no run has it.
        """
        found = np.flatnonzero(self.cells["id"] == name)
        if not len(found):
            raise UnknownCell(f"no cell {name!r} in the runs of {self.folder}")
        at = int(found[0])
        rows = np.flatnonzero(self.outcomes[:, at] != ABSENT)
        table = self.runs.iloc[rows].copy()
        table["outcome"] = [OUTCOMES[code].value for code in self.outcomes[rows, at]]
        columns: dict[str, list[Any]] = {each: [] for each in (*NUMBERS, *WORDS)}
        for run in rows:
            where = int(np.flatnonzero(self.places[run] == at)[0])
            row = self.copies[run].read(list(columns)).slice(where, 1).to_pylist()[0]
            for each, values in columns.items():
                values.append(row[each])
        for each in WORDS:
            table[each] = pd.array(columns[each], dtype="str")
        for each in NUMBERS:
            table[each] = np.array(columns[each], dtype=float)
        return table

    def words(self, run: int, name: str) -> dict[int, str]:
        """Get ``error``, ``stage`` or ``runtime`` of the cells of one run, by cell."""
        values = self.copies[run].read([name])[name].to_pylist()
        pairs = zip(self.places[run].tolist(), values, strict=True)
        return {cell: value for cell, value in pairs if value is not None and cell >= 0}

    def select(self, *, cell: str = "*", target: str = "*", op: str = "*") -> History:
        """Select the cells that match all three globs (``*`` also matches ``/``).

        ``cell`` may also be a literal id with any characters.

        Raises:
            UnknownCell: nothing matches.
        """

        def matching(column: str, glob: str) -> NDArray[np.bool_]:
            known = {value: fnmatchcase(value, glob) or value == glob
                     for value in self.cells[column].unique()}  # fmt: skip
            return np.array([known[value] for value in self.cells[column]], dtype=bool)

        kept = matching("id", cell) & matching("target", target) & matching("op", op)
        if not kept.any():
            asked = {"cell": cell, "target": target, "op": op}
            said = " and ".join(
                f"{name} {value!r}" for name, value in asked.items() if value != "*"
            )
            raise UnknownCell(f"no cell with {said or 'any name'} in the runs of {self.folder}")
        moved = np.where(kept, np.cumsum(kept) - 1, -1)
        made: dict[int, NDArray[np.int64]] = {}
        places = [made.setdefault(id(old), moved[old]) for old in self.places]
        return replace(
            self,
            cells=self.cells[kept].reset_index(drop=True),
            outcomes=self.outcomes[:, kept],
            places=places,
            _known={name: values[:, kept] for name, values in self._known.items()},
        )

    def _fill(self, names: list[str], empty: float, dtype: Any) -> None:
        if not names:
            return
        made = {name: np.empty(self.outcomes.shape, dtype=dtype) for name in names}
        for run, (copy, places) in enumerate(zip(self.copies, self.places, strict=True)):
            columns = copy.read(names)
            kept = places >= 0
            for name, values in made.items():
                if kept.sum() < values.shape[1]:
                    values[run] = empty
                values[run, places[kept]] = columns[name].to_numpy()[kept]
        self._known |= made


def load(
    folder: Path | str,
    *,
    cache: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> History:
    """Load every run directly below a folder.

    The first load reads all records and stores a compact copy of each run in the subfolder
    ``.history``; later loads read the copies. If a copy cannot be written, the load succeeds and
    ``problems`` has the reason. A run that cannot be read is omitted and named in ``problems``.

    Args:
        folder: the folder of runs.
        cache: whether to read and write copies.
        progress: called with the number of runs read so far and the number of all runs.

    Raises:
        RunUnreadable: the folder does not exist, or no run in it can be read.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise RunUnreadable(f"{folder} is not a folder of runs")
    # cells.jsonl without run.json is a damaged run.
    files = [*folder.glob(f"*/{RUN_FILE}"), *folder.glob(f"*/{CELLS_FILE}")]
    found = sorted({file.parent for file in files})
    problems: list[str] = []
    copies: list[tuple[datetime, CompactRun]] = []
    unwritten: list[str] = []
    for number, place in enumerate(found, start=1):
        try:
            opened, unkept = open_copies(place, folder / CACHE if cache else None)
            copies += [(_parse_start(place, copy.info.started), copy) for copy in opened]
        except RunUnreadable as error:
            problems.append(f"omitted: {error}")
            continue
        if unkept:
            unwritten.append(unkept)
        problems += [f"{place.name}: {line}" for copy in opened for line in copy.info.damage]
        if progress is not None:
            progress(number, len(found))
    if cache:
        remove_stale_copies(folder / CACHE, found)
    if not copies:
        why = f": {problems[0]}" if problems else "; make one with: conform run"
        raise RunUnreadable(f"no readable run below {folder}{why}")
    if unwritten:
        problems.append(
            f"{len(unwritten)} compact copies cannot be written to {folder / CACHE}: "
            f"{unwritten[0]}; the next load reads these runs again in full"
        )
    copies = _once(copies, problems)
    copies.sort(key=lambda pair: (pair[0], pair[1].name))
    return _join(folder, copies, problems)


def _once(
    copies: list[tuple[datetime, CompactRun]], problems: list[str]
) -> list[tuple[datetime, CompactRun]]:
    """Omit parts of merged runs that are also in the folder as runs of their own."""

    alone: dict[tuple[str | None, ...], list[CompactRun]] = {}
    for _, copy in copies:
        if not copy.info.name:
            alone.setdefault(_origin(copy), []).append(copy)
    kept = []
    for started, copy in copies:
        others = alone.get(_origin(copy), []) if copy.info.name else []
        # Two shards may have started in the same second; their cells differ.
        mine = _names(copy) if others else set()
        same = next((other for other in others if mine <= _names(other)), None)
        if same is None:
            kept.append((started, copy))
        else:
            problems.append(f"{copy.name} is also in the folder as {same.name}; it counts once")
    return kept


def _origin(copy: CompactRun) -> tuple[str | None, ...]:
    info, env = copy.info, copy.info.environment
    return (info.started, str(info.seed), env.host, env.platform, env.machine, env.git_commit)


def _names(copy: CompactRun) -> set[tuple[str, str]]:
    names = copy.read(["case", "target"])
    return set(zip(*(column.to_pylist() for column in names.columns), strict=True))


def to_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Convert a table to a list of dicts."""
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def _join(folder: Path, dated: list[tuple[datetime, CompactRun]], problems: list[str]) -> History:
    known: dict[tuple[str, str], int] = {}
    facts: list[tuple[str, str, str, str]] = []
    shared: dict[str, NDArray[np.int64]] = {}
    copies = [copy for _, copy in dated]
    places: list[NDArray[np.int64]] = []
    for copy in copies:
        key = copy.info.names
        if key not in shared:
            names = copy.read(NAMES)
            rows = list(zip(*(names[name].to_pylist() for name in NAMES), strict=True))
            shared[key] = np.array([known.setdefault(row[:2], len(known)) for row in rows], int)
            facts += [("", "", "", "")] * (len(known) - len(facts))
            for place, row in zip(shared[key].tolist(), rows, strict=True):
                facts[place] = row
        places.append(shared[key])
    outcomes = np.full((len(copies), len(known)), ABSENT, dtype=np.uint8)
    for run, copy in enumerate(copies):
        outcomes[run, places[run]] = pc.fill_null(copy.read(["outcome"])["outcome"], 0).to_numpy()
    cells = pd.DataFrame(facts, columns=NAMES)
    cells.insert(0, "id", [cell_id(row[0], row[1]) for row in facts])
    runs = pd.DataFrame([_row(started, copy) for started, copy in dated])
    return History(folder, runs, cells, outcomes, problems, copies, places)


def _parse_start(place: Path, value: str) -> datetime:
    started = parse_time(value)
    if started is None:
        raise RunUnreadable(
            f"{place / RUN_FILE} has no valid start time ({text.line(value, 80)!r}), "
            "so the history cannot order the run"
        )
    return started


def _row(started: datetime, copy: CompactRun) -> dict[str, Any]:
    info, env = copy.info, copy.info.environment
    system = env.platform.partition(" ")[0]
    return {
        "run": copy.name,
        "path": str(copy.folder),
        "started": pd.Timestamp(started),
        "day": started.date().isoformat(),
        "line": " ".join(part for part in (system, env.machine) if part) or "unknown host",
        "commit": env.git_commit or "",
        "dirty": env.git_dirty,
        "seed": info.seed,
        "complete": not info.incompleteness,
        "expected": info.expected,
        "missing": info.missing,
        "damage": len(info.damage),
        "notes": "; ".join(info.incompleteness),
        "python": env.python,
        "platform": env.platform,
        "machine": env.machine,
        # Processors of one name may have other vector units, and so other kernels and times.
        "processor": f"{env.processor} {env.vectors}".strip(),
        "cores": env.cores,
        "host": env.host,
        "packages": env.packages,
    }
