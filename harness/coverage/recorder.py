"""Record the lines of the vendors' lowering code that a cell executes, with coverage.py."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import coverage

from harness.coverage.coverage_map import Arc, CoverageMap
from harness.coverage.vendor_code import list_patterns, list_vendor_files


class ArcRecorder:
    """Records the arcs of the vendors' lowering code that this process executes."""

    def __init__(self) -> None:
        self._names = {str(file.path): file.name for file in list_vendor_files()}
        self._coverage = coverage.Coverage(
            data_file=None, config_file=False, branch=True, include=list_patterns(), messages=False
        )

    def start(self) -> None:
        """Begin a recording."""
        self._coverage.start()

    def stop(self) -> dict[str, set[Arc]]:
        """End a recording; return the executed arcs by name of the file."""
        self._coverage.stop()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that nothing was executed
            data = self._coverage.get_data()
        names = {path: self._names[path] for path in data.measured_files() if path in self._names}
        arcs = {name: set(data.arcs(path) or ()) for path, name in names.items()}
        self._coverage.erase()
        return {name: executed for name, executed in arcs.items() if executed}


class CoverageRecorder:
    """Records the cells of one process.

    The first cell of a process also executes what later cells find done: imports, and functions
    behind the vendors' caches. A cell that imports a module or enters such a function, and the
    first of each target, runs twice: the second run is recorded, and functions that only the first
    one executed are stored as executed once in a process.

    Args:
        store: the map that gets the recordings.
    """

    def __init__(self, store: CoverageMap) -> None:
        self._map = store
        self._targets: set[str] = set()
        # Functions that first runs entered and no second run did.
        self._once: set[tuple[str, int]] = set()
        self._recorder = ArcRecorder()

    @contextmanager
    def record(self, cell: str, target: str, run_again: Callable[[], None]) -> Iterator[None]:
        """Record the cell that runs in this block.

        Args:
            cell: id of the cell.
            target: its target.
            run_again: runs the cell once more, and raises nothing.
        """
        modules = len(sys.modules)
        self._recorder.start()
        try:
            yield
        finally:
            executed = self._recorder.stop()
            has_filled_cache = not self._once.isdisjoint(_find_functions(executed))
            if len(sys.modules) != modules or target not in self._targets or has_filled_cache:
                self._targets.add(target)
                self._recorder.start()
                try:
                    run_again()
                finally:
                    first, executed = executed, self._recorder.stop()
                functions = _find_functions(executed)
                once = _find_functions(first) - functions
                self._once = (self._once | once) - functions
                self._map.add_once(once)
            self._map.add_cell(cell, executed)


def _find_functions(arcs: dict[str, set[Arc]]) -> set[tuple[str, int]]:
    """Return the functions that were entered: name of the file and first line."""
    return {(name, -begin) for name, executed in arcs.items() for begin, _ in executed if begin < 0}
