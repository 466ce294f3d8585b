"""A folder of runs, loaded: which runs, which cells, and arrays of what came of them."""

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
from reports.history.compact import NAMES, NUMBERS, OUTCOMES, WORDS, Copy, forget_gone, open_copies
from reports.moment import parse_time

__all__ = ["ABSENT", "OUTCOMES", "History", "load"]

#: The code of a cell that a run neither expected nor recorded.
ABSENT = 255
#: Where the compact copies lie, inside the folder of runs.
CACHE = ".history"


@dataclass
class History:
    """Runs in the order they started, and their cells.

    Attributes:
        folder: where the runs are.
        runs: a row a run, indexed 0 … in time: ``run`` (folder name, with the part of a merged
            run), ``path``, ``started``
            (UTC), ``day``, ``line`` (system and machine: runs that can be compared), ``commit``,
            ``dirty``, ``seed``, ``complete``, ``expected``, ``missing``, ``damage``, ``notes``,
            ``python``, ``platform``, ``machine``, ``processor``, ``cores``, ``host``,
            ``packages`` (a dict).
        cells: a row a cell, indexed 0 …: ``id``, ``case``, ``target``, ``op``, ``suite`` as the
            newest run that has the cell says.
        outcomes: runs × cells, positions in :data:`OUTCOMES`, or :data:`ABSENT`.
        problems: what could not be read or kept, a line each.
    """

    folder: Path
    runs: pd.DataFrame
    cells: pd.DataFrame
    outcomes: NDArray[np.uint8]
    problems: list[str]
    copies: list[Copy] = field(repr=False)
    places: list[NDArray[np.int64]] = field(repr=False)
    _known: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False)

    def metric(self, name: str) -> NDArray[np.float64]:
        """One number of every cell in every run, runs × cells; NaN where there is none.

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
        """Read several metrics at once, which is quicker than one after the other.

        Raises:
            KeyError: there is no such metric.
        """
        if unknown := [name for name in names if name not in NUMBERS]:
            raise KeyError(f"no metric {unknown[0]!r}; there are {', '.join(NUMBERS)}")
        self._fill([name for name in names if name not in self._known], np.nan, np.float64)

    def seen(self) -> NDArray[np.uint32]:
        """All outcomes a cell had in a run as bits, since it may have several records."""
        if "seen" not in self._known:
            self._fill(["seen"], 0, np.uint32)
        return self._known["seen"]

    def series(self, name: str) -> pd.DataFrame:
        """One cell through time: a row for each run that expected or recorded it.

        Columns: those of :attr:`runs`, ``outcome``, ``stage``, ``error``, ``runtime`` and every
        metric.

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
        """``error``, ``stage`` or ``runtime`` of the cells of one run that have it."""
        values = self.copies[run].read([name])[name].to_pylist()
        pairs = zip(self.places[run].tolist(), values, strict=True)
        return {cell: value for cell, value in pairs if value is not None and cell >= 0}

    def select(self, *, cell: str = "*", target: str = "*", op: str = "*") -> History:
        """The same runs with the cells that all three globs match (``*`` also matches ``/``).

        ``cell`` may be spelled literally, whatever characters its name has.

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

    The first load reads all records and leaves a compact copy of each run in ``.history`` of
    that folder; later loads read those. Where it cannot be written, the history is made all the
    same and ``problems`` says why. A run that cannot be read is left out and said.

    Args:
        folder: the folder of runs.
        cache: False neither reads nor writes copies.
        progress: called with the number of runs read so far, and of all.

    Raises:
        RunUnreadable: no such folder, or no run in it can be read.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise RunUnreadable(f"{folder} is not a folder of runs")
    # A record of cells without its run.json is a run too, a damaged one.
    files = [*folder.glob(f"*/{RUN_FILE}"), *folder.glob(f"*/{CELLS_FILE}")]
    found = sorted({file.parent for file in files})
    problems: list[str] = []
    copies: list[tuple[datetime, Copy]] = []
    unwritten: list[str] = []
    for number, place in enumerate(found, start=1):
        try:
            opened, unkept = open_copies(place, folder / CACHE if cache else None)
            copies += [(_started(place, copy.night.started), copy) for copy in opened]
        except RunUnreadable as error:
            problems.append(f"left out: {error}")
            continue
        if unkept:
            unwritten.append(unkept)
        problems += [f"{place.name}: {line}" for copy in opened for line in copy.night.damage]
        if progress is not None:
            progress(number, len(found))
    if cache:
        forget_gone(folder / CACHE, found)
    if not copies:
        why = f": {problems[0]}" if problems else "; make one with: conform run"
        raise RunUnreadable(f"no readable run below {folder}{why}")
    if unwritten:
        problems.append(
            f"{len(unwritten)} compact copies cannot be kept in {folder / CACHE}: {unwritten[0]}; "
            "the next start reads those runs again in full"
        )
    copies = _once(copies, problems)
    copies.sort(key=lambda pair: (pair[0], pair[1].name))
    return _join(folder, copies, problems)


def _once(copies: list[tuple[datetime, Copy]], problems: list[str]) -> list[tuple[datetime, Copy]]:
    """Leave out parts of merged runs that are in the folder by themselves, too."""

    alone: dict[tuple[str | None, ...], list[Copy]] = {}
    for _, copy in copies:
        if not copy.night.name:
            alone.setdefault(_origin(copy), []).append(copy)
    kept = []
    for started, copy in copies:
        others = alone.get(_origin(copy), []) if copy.night.name else []
        # Two shards may have started in the same second; their cells tell them apart.
        mine = _names(copy) if others else set()
        same = next((other for other in others if mine <= _names(other)), None)
        if same is None:
            kept.append((started, copy))
        else:
            problems.append(f"{copy.name} is here as {same.name}, too, and counts once")
    return kept


def _origin(copy: Copy) -> tuple[str | None, ...]:
    night, env = copy.night, copy.night.environment
    return (night.started, str(night.seed), env.host, env.platform, env.machine, env.git_commit)


def _names(copy: Copy) -> set[tuple[str, str]]:
    names = copy.read(["case", "target"])
    return set(zip(*(column.to_pylist() for column in names.columns), strict=True))


def rows_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table by column name."""
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def _join(folder: Path, dated: list[tuple[datetime, Copy]], problems: list[str]) -> History:
    known: dict[tuple[str, str], int] = {}
    facts: list[tuple[str, str, str, str]] = []
    shared: dict[str, NDArray[np.int64]] = {}
    copies = [copy for _, copy in dated]
    places: list[NDArray[np.int64]] = []
    for copy in copies:
        key = copy.night.names
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


def _started(place: Path, said: str) -> datetime:
    started = parse_time(said)
    if started is None:
        raise RunUnreadable(
            f"{place / RUN_FILE} does not say when the run started ({text.line(said, 80)!r}), "
            "so it has no place in a history"
        )
    return started


def _row(started: datetime, copy: Copy) -> dict[str, Any]:
    night, env = copy.night, copy.night.environment
    system = env.platform.partition(" ")[0]
    return {
        "run": copy.name,
        "path": str(copy.folder),
        "started": pd.Timestamp(started),
        "day": started.date().isoformat(),
        "line": " ".join(part for part in (system, env.machine) if part) or "unknown host",
        "commit": env.git_commit or "",
        "dirty": env.git_dirty,
        "seed": night.seed,
        "complete": not night.incompleteness,
        "expected": night.expected,
        "missing": night.missing,
        "damage": len(night.damage),
        "notes": "; ".join(night.incompleteness),
        "python": env.python,
        "platform": env.platform,
        "machine": env.machine,
        # One name stands for processors with other vectors, whose kernels and times are others.
        "processor": f"{env.processor} {env.vectors}".strip(),
        "cores": env.cores,
        "host": env.host,
        "packages": env.packages,
    }
