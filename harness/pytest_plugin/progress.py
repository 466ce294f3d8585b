"""Where a run is: a live view in a terminal, a line now and then elsewhere; in place of dots.

Counted are cells. Other tests of the session keep their letters.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harness.pytest_plugin.cached.cached_cells import known as known_cells, whole
from harness.pytest_plugin.durations import known, unit_of
from harness.pytest_plugin.items import CELL_PROPERTY, cell_of
from harness.record.cell import Status
from harness.record.target import split_cell_id

_EVERY = 20.0  # seconds between lines
_RED_SHOWN = 5
_RUNNING_SHOWN = 16
_HOSTS_SHOWN = 8
_DIM: Mapping[str, Any] = {"style": "dim", "overflow": "ellipsis", "no_wrap": True}
_SHORT = 0.2  # seconds of a cell of which no time is known: those that take long are known
_WEIGHT_OF_FIRST = 10.0
_ENDED = ("call", "???")  # when a test was called, or ended its worker


class _Record(msgspec.Struct):
    """What a line of progress needs of a record."""

    status: Status
    error: str | None = None


@dataclass
class _Pace:
    """Seconds of a clock for what was expected, at first as if some had ended at ``first``.

    Attributes:
        open: what is expected of those that have not ended, in seconds or cells.
    """

    first: float
    open: float = 0.0

    def __post_init__(self) -> None:
        self._ended = _WEIGHT_OF_FIRST
        self._took = _WEIGHT_OF_FIRST * self.first

    def end(self, expected: float, took: float) -> None:
        self.open -= expected
        self._ended += expected
        self._took += took

    def left(self) -> float:
        return max(0.0, self.open) * self._took / self._ended


@dataclass
class Tally:
    """How far a run is.

    Attributes:
        expected: the cells, and the seconds that each took before where that is known.
        planned: cells, by target; with passes as one.
        done: cells that ended, by target.
        red: those that are red, and why.
        running: when the cells that run now began.
        places: where they run, on a farm.
        by: cells that ended, by where they ran.
        began: when the first cell was to come, in seconds of ``clock``.
    """

    expected: dict[str, float | None]
    workers: int = 1
    clock: Any = time.monotonic
    done: Counter[str] = field(default_factory=Counter)
    red: dict[str, str] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    by: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.began: float = self.clock()
        self.planned = Counter(map(_target, self.expected))
        self._paces = _Pace(1.0), _Pace(_SHORT)
        for took in self.expected.values():
            self._paces[took is None].open += 1.0 if took is None else took

    def start(self, cell: str) -> None:
        """A worker takes a cell."""
        self.running[cell] = self.clock()

    def end(self, cell: str, status: Status, error: str | None) -> None:
        """A cell has a record, or has ended its worker."""
        took = self.clock() - self.running.pop(cell, self.clock())
        expected = self.expected.get(cell)
        self._paces[expected is None].end(1.0 if expected is None else expected, took)
        self.done[_target(cell)] += 1
        if (place := self.places.pop(cell, None)) is not None:
            self.by[place] += 1
        if status.is_red:
            self.red[cell] = f"{status.value}: {(error or '').partition(chr(10))[0]}"

    def take(self, cell: str, status: Status, error: str | None) -> None:
        """A cell need not run: it says nothing of how long others take."""
        took, self.expected[cell] = self.expected[cell], 0.0
        self._paces[took is None].open -= 1.0 if took is None else took
        self.end(cell, status, error)

    def left(self) -> float | None:
        """Seconds to the end, at the pace so far: of what cells took before, and a cell where that
        is not known. None when all have ended."""
        if self.done.total() == self.planned.total():
            return None
        return sum(pace.left() for pace in self._paces) / self.workers

    def line(self) -> str:
        """All of it in one line."""
        left = self.left()
        about = "" if left is None else f", about {duration(left)} left"
        done, planned = self.done.total(), self.planned.total()
        took = duration(self.clock() - self.began)
        hosts = f"; {', '.join(self._hosts())}" if self.by or self.places else ""
        return f"{done:,} of {planned:,} cells, {len(self.red)} red, {took}{about}{hosts}"

    def _hosts(self) -> list[str]:
        """What each worker of a farm did, the busiest first, and what it does."""
        runs = Counter(self.places.values())
        names = [name for name, _ in self.by.most_common(_HOSTS_SHOWN)]
        names += [name for name in sorted(runs) if name not in self.by][: _HOSTS_SHOWN - len(names)]
        more = len({*self.by, *runs}) - len(names)
        found = [f"{name} {self.by[name]:,}+{runs[name]}" for name in names]
        return [*found, f"{more} more workers"] if more else found

    def view(self) -> Group:
        """All of it as a terminal shows it."""
        table = Table.grid(padding=(0, 2))
        for name, planned in self.planned.most_common():
            done = self.done[name]
            red = sum(_target(cell) == name for cell in self.red)
            table.add_row(
                Text(name, overflow="ellipsis", no_wrap=True),
                ProgressBar(total=planned, completed=done, width=30),
                Text(f"{done:,}/{planned:,}", justify="right"),
                Text(f"{red} red" if red else "", style="red"),
            )
        now = self.clock()
        running = [
            Text(f"  {cell}  {now - since:.0f} s{self._where(cell)}", **_DIM)
            for cell, since in list(self.running.items())[:_RUNNING_SHOWN]
        ]
        found = [
            Text(f"✗ {cell} {why}", style="red", overflow="ellipsis", no_wrap=True)
            for cell, why in list(self.red.items())[-_RED_SHOWN:]
        ]
        return Group(table, *running, *found, Text(self.line(), style="bold"))

    def _where(self, cell: str) -> str:
        place = self.places.get(cell)
        return "" if place is None else f"  on {place}"


def duration(seconds: float) -> str:
    """``45 s`` or ``3 min 20 s``."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _target(cell: str) -> str:
    return split_cell_id(cell)[1].family


def _expected(config: pytest.Config, nodeids: Sequence[str]) -> dict[str, float | None]:
    """The cells of these tests, each with its part of the seconds that the case took before."""
    took = known(config)
    units = {nodeid: unit_of(nodeid) for nodeid in nodeids if cell_of(nodeid)}
    shares = Counter(units.values())
    return {
        cell_of(nodeid) or nodeid: took[unit] / shares[unit] if unit in took else None
        for nodeid, unit in units.items()
    }


class Progress:
    """The part of the plugin that shows where a run is.

    Args:
        config: the session's.
        live: a view that stays in place; lines otherwise.
    """

    def __init__(self, config: pytest.Config, *, live: bool) -> None:
        self._config = config
        self._workers = len(getattr(config.option, "tx", None) or ()) or 1
        self._is_live = live
        self._tally: Tally | None = None
        self._live: Live | None = None
        self._said = 0.0
        # What a test prints is captured by then: this is where the session itself writes.
        self._console = Console(file=os.fdopen(os.dup(1), "w", buffering=1))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without xdist this process knows the cells."""
        if not session.config.option.collectonly:
            self._begin(whole(self._config, [item.nodeid for item in session.items]))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """With it the first worker does."""
        self._begin(whole(self._config, ids))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A worker takes a test."""
        cell = cell_of(nodeid)
        if cell is not None and self._tally is not None:
            self._tally.start(cell)
            self._show()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has ended."""
        cell = cell_of(report.nodeid)
        if cell is None or self._tally is None or report.when not in _ENDED:
            return
        record = next(
            (
                msgspec.json.decode(str(value), type=_Record)
                for key, value in report.user_properties
                if key == CELL_PROPERTY
            ),
            _Record(Status.CRASHED, "it ended its worker"),
        )
        ended = self._tally.take if report.nodeid in known_cells(self._config) else self._tally.end
        ended(cell, record.status, record.error)
        if cell in self._tally.red and not self._is_live:
            self._print(f"✗ {cell} {self._tally.red[cell]}")
        self._show()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> Generator[None, Any, Any]:
        """Cells have no letter."""
        found = yield
        is_shown = self._tally is not None and cell_of(report.nodeid) is not None
        return (found[0], "", "") if found and is_shown else found

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Leave the last state where it stands."""
        if self._live is not None:
            self._live.stop()
        elif self._tally is not None:
            self._print(self._tally.line())

    def set_cluster_slots(self, slots: int) -> None:
        """Set the number of cells that run at once on a cluster."""
        self._workers = slots
        if self._tally is not None:
            self._tally.workers = slots

    def set_worker(self, cell: str, worker: str) -> None:
        """Record that a worker of a cluster runs a cell."""
        if self._tally is not None:
            self._tally.places[cell] = worker

    def _begin(self, nodeids: Sequence[str]) -> None:
        expected = {} if self._tally is not None else _expected(self._config, nodeids)
        if not expected:
            return
        self._tally = Tally(expected, workers=self._workers)
        planned = self._tally.planned
        if self._is_live:
            self._live = Live(
                console=self._console,
                get_renderable=self._tally.view,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="visible",
            )
            self._live.start()
        else:
            targets = "1 target" if len(planned) == 1 else f"{len(planned)} targets"
            cells = "1 cell" if planned.total() == 1 else f"{planned.total():,} cells"
            self._print(f"{cells} on {targets}")

    def _show(self) -> None:
        now = time.monotonic()
        if self._tally is not None and not self._is_live and now - self._said >= _EVERY:
            self._print(self._tally.line())

    def _print(self, text: str) -> None:
        self._said = time.monotonic()
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
