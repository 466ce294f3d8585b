"""``conform history``: trends, step changes and flaky cells in a folder of runs."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from reports.commands.common import style_option


@click.command("history")
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--cell", metavar="ID", help="Show one cell in all runs.")
@click.option(
    "--target", metavar="GLOB", default="*", help="Show only cells of these targets; default: all."
)
@click.option(
    "--op", metavar="GLOB", default="*", help="Show only cells of these operators; default: all."
)
@click.option(
    "--flaky", is_flag=True, help="Show cells with different outcomes for the same code and seed."
)
@click.option("--steps", is_flag=True, help="Show lasting changes of metrics.")
@click.option("--first-bad", is_flag=True, help="Show the first bad run of each red cell.")
@click.option(
    "--by",
    type=click.Choice(["cell", "op", "target"]),
    default="cell",
    show_default=True,
    help="Find steps of each cell, or of the median over the cells of an op or a target.",
)
@style_option("row")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=12,
    show_default=True,
    help="Print at most this many rows per table.",
)
@click.option("--no-cache", is_flag=True, help="Do not read or write compact copies of runs.")
def command(
    folder: Path | None,
    cell: str | None,
    target: str,
    op: str,
    flaky: bool,
    steps: bool,
    first_bad: bool,
    by: str,
    style: str,
    limit: int,
    no_cache: bool,
) -> None:
    """Show the history of the runs in FOLDER (default: runs/), day by day.

    Without --flaky, --steps or --first-bad, show all of these: the latest days by target, step
    changes with their range of commits, red cells with their first bad run, and flaky cells. The
    first call reads each run in full and stores a compact copy in FOLDER/.history.

    Exit code 0 whatever is found, and 2 if no run can be read.
    """
    from reports import history
    from reports.history import view as views

    asked = [name for name, given in (("steps", steps), ("flaky", flaky), ("first-bad", first_bad))
             if given]  # fmt: skip
    past = history.load(folder or Path("runs"), cache=not no_cache, progress=_progress)
    if cell is not None or target != "*" or op != "*":
        past = past.select(cell=cell or "*", target=target, op=op)
    found = views.find(past, asked or views.PARTS, by=by, cell=cell or "")
    if style == "json":
        from reports.history import plain

        click.echo(plain.render(past, found))
        return
    shown = views.make_view(past, found, limit=limit)
    if style == "markdown":
        from reports.history import markdown

        click.echo(markdown.render(shown), nl=False)
    else:
        from reports.history import terminal

        terminal.render(shown)


def _progress(done: int, number: int) -> None:
    # The first read of a year of nightly runs takes minutes; later reads are fast.
    if sys.stderr.isatty() and done % 10 == 0 and number >= 20:
        click.echo(f"\r{done} of {number} runs", nl=done == number, err=True)
