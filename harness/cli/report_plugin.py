"""A pytest plugin of its own: prints the report of a run when its session has ended.

It stands here because it sees both the harness and the reports.
"""

from __future__ import annotations

import pytest

# Now: pytest puts folders of the project that it tests in front of sys.path, and one of them may
# have reports of its own.
from reports.render import folder as report_folder, terminal
from reports.summary import Summary


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Print the report after pytest's own summary and say where the page is."""
    from harness import ConformError
    from harness.record.folder import load

    controller = config.pluginmanager.get_plugin("conform-controller")
    # Without a record of its own, the folder may hold the run of another session.
    if controller is None or controller.recorder is None:
        return
    from rich.console import Console

    console = Console()
    try:
        found = Summary.of(load(controller.recorder.folder))
        terminal.render(found, console)
        console.print(f"report: {report_folder.write(found)}", soft_wrap=True)
    except ConformError as error:
        # On a full disk, say: the records are what counts, and a green run has its page.
        console.print(f"no report: {error}", soft_wrap=True, markup=False, highlight=False)
        session = config.pluginmanager.get_plugin("session")
        if session is not None and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
