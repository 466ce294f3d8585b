"""Pytest plugin that prints the report of a run at the end of its session.

It is in this package because it imports both the harness and the reports.
"""

from __future__ import annotations

import pytest

# Imported early: pytest later prepends folders of the tested project to sys.path, which may contain
# another package "reports".
from reports.render import folder as report_folder, terminal
from reports.summary import RunSummary


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Print the report and the path of the HTML report after pytest's summary."""
    from harness import ConformError
    from harness.record.folder import load

    controller = config.pluginmanager.get_plugin("conform-controller")
    # Without a recorder, the folder may contain the run of another session.
    if controller is None or controller.recorder is None:
        return
    from rich.console import Console

    console = Console()
    try:
        found = RunSummary.from_run(load(controller.recorder.folder))
        terminal.render(found, console)
        console.print(f"report: {report_folder.write(found)}", soft_wrap=True)
    except ConformError as error:
        # For example on a full disk. A green run must have its report.
        console.print(f"no report: {error}", soft_wrap=True, markup=False, highlight=False)
        session = config.pluginmanager.get_plugin("session")
        if session is not None and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
