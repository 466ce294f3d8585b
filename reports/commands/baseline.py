"""``conform baseline``: the stored result that a gate compares runs with."""

from __future__ import annotations

from pathlib import Path

import click

from harness.errors import RunUnreadable, UsageError
from reports.commands.common import read_run


@click.group("baseline")
def command() -> None:
    """Store a run as a text file for git, one line per cell."""


@command.command()
@click.option(
    "--baseline",
    "file",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Baseline file to write; required.",
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--allow-incomplete", is_flag=True, help="Accept a run that did not finish or lacks records."
)
@click.option("--times", is_flag=True, help="Store times too; each update then changes every line.")
def update(file: Path, run: Path, allow_incomplete: bool, times: bool) -> None:
    """Store RUN as the baseline and print every change from the old baseline.

    The command refuses an empty run, and an incomplete run without --allow-incomplete. The
    baseline records that its run was incomplete.
    """
    from rich.console import Console

    from reports.comparison import baseline
    from reports.comparison.baseline_report import render
    from reports.comparison.snapshot import take_snapshot

    taken = take_snapshot(read_run(run))
    if not taken.cells:
        raise UsageError(f"{run} has no cells; an empty baseline accepts everything")
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
            # The old file is damaged, for instance by a git merge: replace it without a comparison.
            click.echo(f"conform: cannot compare with the old baseline: {error}", err=True)
    render(old, baseline.store(file, taken, times=times), Console())
    click.echo(file)
