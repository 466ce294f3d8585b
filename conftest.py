"""Turns on the plugin, and renders the report when a run has ended."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["harness.plugin"]


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Print the report after pytest's own summary and say where the page is."""
    from harness.run import RUN_FILE, load

    folder = Path(config.getoption("run_dir", "") or "")
    if hasattr(config, "workerinput") or not (folder / RUN_FILE).exists():
        return
    from rich.console import Console

    from reports import folder as report_folder
    from reports import terminal

    run = load(folder)
    console = Console()
    terminal.render(run, console)
    console.print(f"report: {report_folder.write(run)}", soft_wrap=True)
