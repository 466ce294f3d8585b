"""Durations of units of work, so that a run starts the longest first and keeps all workers busy.

pytest's cache stores durations of earlier runs; the project ships durations of its CI for a first
run. ``python -m harness.pytest_plugin.durations CACHE/v/conform/durations`` writes the shipped
file from a cache (``.pytest_cache``, under tox in the folder of the environment).
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from harness.pytest_plugin.cached import cached_cells as reused
from harness.pytest_plugin.items import get_cell_id

SHIPPED = Path(__file__).with_suffix(".json")
# Shorter units are not shipped: their place in the queue makes no difference.
MIN_SHIPPED_SECONDS = 2.0
_KEY = "conform/durations"


def get_work_unit(nodeid: str) -> str:
    """Return the unit of work of a test: all cells of a case, or a single other test."""
    return nodeid.rpartition("@")[0] if get_cell_id(nodeid) else nodeid


def load_durations(config: pytest.Config) -> dict[str, float]:
    """Load seconds by unit: of the last run here, else the shipped ones."""
    return {**_parse(SHIPPED.read_text(encoding="utf-8")), **_load_cached(config)}


class DurationRecorder:
    """Plugin of the controller that stores the duration of each unit for the next run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._seconds: dict[str, float] = defaultdict(float)
        # Units with reused cells: their durations are incomplete.
        self._incomplete: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the duration of setup, call or teardown."""
        if report.nodeid in reused.get_reused_cells(self.config):
            self._incomplete.add(get_work_unit(report.nodeid))
            return
        self._seconds[get_work_unit(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Store durations; units that did not run keep their old ones."""
        if (cache := getattr(self.config, "cache", None)) is None:
            return  # pytest's cache is disabled
        complete = {
            unit: took for unit, took in self._seconds.items() if unit not in self._incomplete
        }
        merged = {**_load_cached(self.config), **complete}
        cache.set(_KEY, {unit: round(seconds, 1) for unit, seconds in sorted(merged.items())})


def _load_cached(config: pytest.Config) -> dict[str, float]:
    cache = getattr(config, "cache", None)
    return {} if cache is None else _parse(json.dumps(cache.get(_KEY, {})))


def _parse(text: str) -> dict[str, float]:
    """Parse durations; ignore other content, as durations only affect the order."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {unit: float(took) for unit, took in found.items() if isinstance(took, int | float)}


def _ship(cached: Path) -> None:
    found = _parse(cached.read_text(encoding="utf-8"))
    long_units = {unit: took for unit, took in found.items() if took >= MIN_SHIPPED_SECONDS}
    SHIPPED.write_text(json.dumps(long_units, indent=0, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _ship(Path(sys.argv[1]))
