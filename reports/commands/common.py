"""What several commands need: reading runs and writing files, with one clear line on failure."""

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
    """``--format`` of a command that prints; its json has every ``part`` in full."""
    return click.option(
        "--format",
        "style",
        type=click.Choice(["terminal", "markdown", "json"]),
        default="terminal",
        show_default=True,
        help=f"How to print it; json has every {part} in full.",
    )


def read_run(folder: Path) -> Run:
    """Load a run folder.

    Raises:
        RunUnreadable: it is not one.
    """
    from harness.record.folder import load

    if not folder.is_dir():
        raise RunUnreadable(f"{folder} is not a run folder; list the runs with: ls runs")
    return load(folder)


def read_side(path: Path) -> RunSnapshot:
    """Load a run folder or a stored baseline, whichever the path is.

    Raises:
        RunUnreadable: it is neither.
    """
    from reports.comparison import baseline
    from reports.comparison.snapshot import take_snapshot

    return take_snapshot(read_run(path)) if path.is_dir() else baseline.load(path)


def write_text(path: Path, content: str) -> None:
    """Write a file, whole or not at all.

    Raises:
        RunUnwritable: the folder or the disk refuses.
    """
    from reports import output

    output.write(path, content.encode())
