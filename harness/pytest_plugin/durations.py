"""How long units of work took, so that the next run starts the longest first and ends with short
ones: at its end no worker waits for another.

pytest's cache keeps what earlier runs here took; for a first one the project ships what its own CI
took. ``python -m harness.pytest_plugin.durations CACHE/v/conform/durations`` writes the shipped
file from a cache (``.pytest_cache``, under tox in the folder of the environment).
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from harness.pytest_plugin.cached import cached_cells as reuse
from harness.pytest_plugin.items import cell_of

SHIPPED = Path(__file__).with_suffix(".json")
# Below this, where a unit stands in the queue makes no difference.
TELLING_SECONDS = 2.0
_KEY = "conform/durations"


def unit_of(nodeid: str) -> str:
    """What is given to one worker: the cells of a case, and any other test by itself."""
    return nodeid.rpartition("@")[0] if cell_of(nodeid) else nodeid


def known(config: pytest.Config) -> dict[str, float]:
    """Seconds by unit: what they took here last, else what is shipped."""
    return {**_read(SHIPPED.read_text(encoding="utf-8")), **_kept(config)}


class Durations:
    """In the controller: adds up what each unit takes, and keeps it for the next run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._seconds: dict[str, float] = defaultdict(float)
        # Units some of whose cells did not run: what these took is not what the unit takes.
        self._partly: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a test's setup, call and teardown."""
        if report.nodeid in reuse.known(self.config):
            self._partly.add(unit_of(report.nodeid))
            return
        self._seconds[unit_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Units that did not run keep what is known of them."""
        if (cache := getattr(self.config, "cache", None)) is None:
            return  # switched off
        whole = {unit: took for unit, took in self._seconds.items() if unit not in self._partly}
        merged = {**_kept(self.config), **whole}
        cache.set(_KEY, {unit: round(seconds, 1) for unit, seconds in sorted(merged.items())})


def _kept(config: pytest.Config) -> dict[str, float]:
    cache = getattr(config, "cache", None)
    return {} if cache is None else _read(json.dumps(cache.get(_KEY, {})))


def _read(text: str) -> dict[str, float]:
    """What is no table of numbers is as good as nothing: it orders, and decides nothing."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {unit: float(took) for unit, took in found.items() if isinstance(took, int | float)}


def _ship(cached: Path) -> None:
    found = _read(cached.read_text(encoding="utf-8"))
    telling = {unit: took for unit, took in found.items() if took >= TELLING_SECONDS}
    SHIPPED.write_text(json.dumps(telling, indent=0, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _ship(Path(sys.argv[1]))
