"""``conform baseline``: the stored result that a gate holds runs against."""

from __future__ import annotations

from pathlib import Path

import click

from harness.errors import RunUnreadable, UsageError
from reports.commands.common import read_run


@click.group("baseline")
def command() -> None:
    """Keep a run as a text file for git, a line a cell."""


@command.command()
@click.option(
    "--baseline",
    "file",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write.",
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--allow-incomplete", is_flag=True, help="Accept a run that did not end or lacks records."
)
@click.option("--times", is_flag=True, help="Keep times; every update then changes every line.")
def update(file: Path, run: Path, allow_incomplete: bool, times: bool) -> None:
    """Accept RUN as the baseline, and print what that accepts: every change against the old one.

    An empty run is refused, and an incomplete one unless --allow-incomplete says so; the
    baseline then remembers it.
    """
    from rich.console import Console

    from reports.comparison import baseline
    from reports.comparison.baseline_report import render
    from reports.comparison.snapshot import take_snapshot

    taken = take_snapshot(read_run(run))
    if not taken.cells:
        raise UsageError(f"{run} has no cell; an empty baseline accepts everything")
    if taken.incomplete and not allow_incomplete:
        raise UsageError(
            f"{run} is incomplete: {taken.incomplete[0]}; run it again, or accept it as it is "
            "with --allow-incomplete"
        )
    old = None
    if file.exists():
        try:
            old = baseline.load(file)
        except RunUnreadable as error:
            # Damaged in a merge, say: it is replaced, and what that accepts cannot be told.
            click.echo(f"conform: nothing to compare with: {error}", err=True)
    render(old, baseline.store(file, taken, times=times), Console())
    click.echo(file)
