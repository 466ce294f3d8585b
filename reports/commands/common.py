"""Helpers of several commands: read runs and write files, with a one-line error on failure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.errors import RunUnreadable

if TYPE_CHECKING:
    from harness.record.run import Run
    from reports.comparison.snapshot import RunSnapshot


RUNS = Path("runs")


def style_option(part: str) -> Callable[[Any], Any]:
    """Make the ``--format`` option; in JSON, every ``part`` is complete."""
    return click.option(
        "--format",
        "style",
        type=click.Choice(["terminal", "markdown", "json"]),
        default="terminal",
        show_default=True,
        help=f"Output format; json has every {part} in full.",
    )


def read_run(folder: Path) -> Run:
    """Load a run folder.

    Raises:
        RunUnreadable: the path is not a readable run folder.
    """
    from harness.record.folder import load

    if not folder.is_dir():
        raise RunUnreadable(f"{folder} is not a run folder; list the runs with: ls runs")
    return load(folder)


def read_side(path: Path) -> RunSnapshot:
    """Load a run folder or a stored baseline.

    Raises:
        RunUnreadable: the path is neither of them.
    """
    from reports.comparison import baseline
    from reports.comparison.snapshot import take_snapshot

    return take_snapshot(read_run(path)) if path.is_dir() else baseline.load(path)


def write_text(path: Path, content: str) -> None:
    """Write a file atomically.

    Raises:
        RunUnwritable: the file cannot be written.
    """
    from reports import output

    output.write(path, content.encode())
