"""Plugin of the processes that run cells: records what each cell executes (``--coverage``)."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.errors import ConflictingOptions
from harness.pytest_plugin.items import CellItem

if TYPE_CHECKING:
    from harness.coverage.recorder import CoverageRecorder


class CoverageRecording:
    """Records cells into the map of the run folder."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._recorder: CoverageRecorder | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Record a cell."""
        if not isinstance(item, CellItem):
            return (yield)

        def run_again() -> None:
            properties = item.user_properties.copy()
            with contextlib.suppress(Exception, pytest.fail.Exception, pytest.skip.Exception):
                item.runtest()
            item.user_properties[:] = properties

        if self._recorder is None:
            self._recorder = self._make_recorder()
        with self._recorder.record(item.name, str(item.target), run_again):
            return (yield)

    def _make_recorder(self) -> CoverageRecorder:
        """Open the map. Not before the first cell: the process that writes records runs none."""
        from harness.coverage.coverage_map import MAP_FILE, CoverageMap
        from harness.coverage.recorder import CoverageRecorder

        folder = Path(self._config.getoption("conform_run_dir"))
        store = CoverageMap(folder / MAP_FILE, create=True)
        self._config.add_cleanup(store.close)
        return CoverageRecorder(store)


def prepare_coverage(config: pytest.Config) -> None:
    """Register the plugin if coverage is recorded.

    Raises:
        ConflictingOptions: cells would not run in full, or not here.
    """
    if not config.getoption("conform_coverage"):
        return
    for option in ("incremental", "cluster"):
        if config.getoption(f"conform_{option}", None):
            raise ConflictingOptions(f"--coverage records cells that run here; omit --{option}")
    config.option.conform_trace_time = 0.0  # tracing lowers parts of the program as well
    config.pluginmanager.register(CoverageRecording(config), "conform-coverage")
