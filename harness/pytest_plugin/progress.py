"""Shows the progress of a run as a live view or as lines, instead of pytest's letters.

Only cells are counted. Other tests of the session keep their letters.
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

from harness.pytest_plugin.cached.cached_cells import get_reused_cells, list_all_tests
from harness.pytest_plugin.durations import get_work_unit, load_durations
from harness.pytest_plugin.items import CELL_PROPERTY, get_cell_id
from harness.record.cell import Status
from harness.record.target import split_cell_id

_LINE_SECONDS = 20.0  # between lines
_RED_SHOWN = 5
_RUNNING_SHOWN = 16
_HOSTS_SHOWN = 8
_DIM: Mapping[str, Any] = {"style": "dim", "overflow": "ellipsis", "no_wrap": True}
_UNKNOWN_SECONDS = 0.2  # of a cell without a recorded duration: long ones are recorded
_PRIOR_WEIGHT = 10.0
_ENDED = ("call", "???")  # phases of reports of a test that was called, or ended its worker


class _Record(msgspec.Struct):
    """Part of a record that a progress line needs."""

    status: Status
    error: str | None = None


@dataclass
class _Pace:
    """Ratio of elapsed to expected time, starting from the estimate ``first``.

    Attributes:
        open: expected work of cells that have not ended, in seconds or cells.
    """

    first: float
    open: float = 0.0

    def __post_init__(self) -> None:
        self._ended = _PRIOR_WEIGHT
        self._took = _PRIOR_WEIGHT * self.first

    def end(self, expected: float, took: float) -> None:
        self.open -= expected
        self._ended += expected
        self._took += took

    def left(self) -> float:
        return max(0.0, self.open) * self._took / self._ended


@dataclass
class RunProgress:
    """Progress of a run.

    Attributes:
        expected: expected seconds by cell; None if unknown.
        planned: number of cells by target; variants of a target with passes count as one.
        done: number of ended cells by target.
        red: reason by red cell.
        running: start times of running cells.
        places: worker of each running cell, on a cluster.
        by: number of ended cells by worker.
        began: start time, in seconds of ``clock``.
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
        self._paces = _Pace(1.0), _Pace(_UNKNOWN_SECONDS)
        for took in self.expected.values():
            self._paces[took is None].open += 1.0 if took is None else took

    def start(self, cell: str) -> None:
        """Record that a cell began."""
        self.running[cell] = self.clock()

    def end(self, cell: str, status: Status, error: str | None) -> None:
        """Record that a cell ended, or ended its worker."""
        took = self.clock() - self.running.pop(cell, self.clock())
        expected = self.expected.get(cell)
        self._paces[expected is None].end(1.0 if expected is None else expected, took)
        self.done[_target(cell)] += 1
        if (place := self.places.pop(cell, None)) is not None:
            self.by[place] += 1
        if status.is_red:
            self.red[cell] = f"{status.value}: {(error or '').partition(chr(10))[0]}"

    def reuse(self, cell: str, status: Status, error: str | None) -> None:
        """Record a reused cell, which does not affect the estimated time."""
        took, self.expected[cell] = self.expected[cell], 0.0
        self._paces[took is None].open -= 1.0 if took is None else took
        self.end(cell, status, error)

    def estimate_seconds_left(self) -> float | None:
        """Estimate the remaining seconds from earlier durations and the pace so far.

        Returns:
            None if all cells have ended.
        """
        if self.done.total() == self.planned.total():
            return None
        return sum(pace.left() for pace in self._paces) / self.workers

    def line(self) -> str:
        """Format the progress as one line."""
        left = self.estimate_seconds_left()
        about = "" if left is None else f", about {duration(left)} left"
        done, planned = self.done.total(), self.planned.total()
        took = duration(self.clock() - self.began)
        hosts = f"; {', '.join(self._format_workers())}" if self.by or self.places else ""
        return f"{done:,} of {planned:,} cells, {len(self.red)} red, {took}{about}{hosts}"

    def _format_workers(self) -> list[str]:
        """Format ended and running cells of each worker of a cluster, busiest first."""
        runs = Counter(self.places.values())
        names = [name for name, _ in self.by.most_common(_HOSTS_SHOWN)]
        names += [name for name in sorted(runs) if name not in self.by][: _HOSTS_SHOWN - len(names)]
        more = len({*self.by, *runs}) - len(names)
        found = [f"{name} {self.by[name]:,}+{runs[name]}" for name in names]
        return [*found, f"{more} more workers"] if more else found

    def view(self) -> Group:
        """Format the progress for a terminal."""
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
            Text(f"  {cell}  {now - since:.0f} s{self._describe_place(cell)}", **_DIM)
            for cell, since in list(self.running.items())[:_RUNNING_SHOWN]
        ]
        found = [
            Text(f"✗ {cell} {why}", style="red", overflow="ellipsis", no_wrap=True)
            for cell, why in list(self.red.items())[-_RED_SHOWN:]
        ]
        return Group(table, *running, *found, Text(self.line(), style="bold"))

    def _describe_place(self, cell: str) -> str:
        place = self.places.get(cell)
        return "" if place is None else f"  on {place}"


def duration(seconds: float) -> str:
    """Format seconds as ``45 s`` or ``3 min 20 s``."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _target(cell: str) -> str:
    return split_cell_id(cell)[1].family


def _estimate_durations(config: pytest.Config, nodeids: Sequence[str]) -> dict[str, float | None]:
    """Return the cells of these tests with their expected seconds: a share of their case's."""
    took = load_durations(config)
    units = {nodeid: get_work_unit(nodeid) for nodeid in nodeids if get_cell_id(nodeid)}
    shares = Counter(units.values())
    return {
        get_cell_id(nodeid) or nodeid: took[unit] / shares[unit] if unit in took else None
        for nodeid, unit in units.items()
    }


class Progress:
    """Plugin that shows the progress of a session.

    Args:
        config: configuration of the session.
        live: show a live view; otherwise lines.
    """

    def __init__(self, config: pytest.Config, *, live: bool) -> None:
        self._config = config
        self._workers = len(getattr(config.option, "tx", None) or ()) or 1
        self._is_live = live
        self._progress: RunProgress | None = None
        self._live: Live | None = None
        self._printed_at = 0.0
        # pytest captures fd 1 later; this duplicate stays the output of the session.
        self._console = Console(file=os.fdopen(os.dup(1), "w", buffering=1))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Begin with the cells of this process, without xdist."""
        if not session.config.option.collectonly:
            self._begin(list_all_tests(self._config, [item.nodeid for item in session.items]))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Begin with the cells of the first worker, with xdist."""
        self._begin(list_all_tests(self._config, ids))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Record that a cell began."""
        cell = get_cell_id(nodeid)
        if cell is not None and self._progress is not None:
            self._progress.start(cell)
            self._show()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record that a cell ended."""
        cell = get_cell_id(report.nodeid)
        if cell is None or self._progress is None or report.when not in _ENDED:
            return
        record = next(
            (
                msgspec.json.decode(str(value), type=_Record)
                for key, value in report.user_properties
                if key == CELL_PROPERTY
            ),
            _Record(Status.CRASHED, "its worker died"),
        )
        ended = (
            self._progress.reuse
            if report.nodeid in get_reused_cells(self._config)
            else self._progress.end
        )
        ended(cell, record.status, record.error)
        if cell in self._progress.red and not self._is_live:
            self._print(f"✗ {cell} {self._progress.red[cell]}")
        self._show()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> Generator[None, Any, Any]:
        """Print no letter for cells."""
        found = yield
        is_shown = self._progress is not None and get_cell_id(report.nodeid) is not None
        return (found[0], "", "") if found and is_shown else found

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Print the final state."""
        if self._live is not None:
            self._live.stop()
        elif self._progress is not None:
            self._print(self._progress.line())

    def set_cluster_slots(self, slots: int) -> None:
        """Set the number of cells that run at once on a cluster."""
        self._workers = slots
        if self._progress is not None:
            self._progress.workers = slots

    def set_worker(self, cell: str, worker: str) -> None:
        """Record that a worker of a cluster runs a cell."""
        if self._progress is not None:
            self._progress.places[cell] = worker

    def _begin(self, nodeids: Sequence[str]) -> None:
        expected = {} if self._progress is not None else _estimate_durations(self._config, nodeids)
        if not expected:
            return
        self._progress = RunProgress(expected, workers=self._workers)
        planned = self._progress.planned
        if self._is_live:
            self._live = Live(
                console=self._console,
                get_renderable=self._progress.view,
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
        if (
            self._progress is not None
            and not self._is_live
            and now - self._printed_at >= _LINE_SECONDS
        ):
            self._print(self._progress.line())

    def _print(self, text: str) -> None:
        self._printed_at = time.monotonic()
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
