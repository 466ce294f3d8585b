"""``conform history``: what a folder of runs says of time."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from reports.commands.common import style_option


@click.command("history")
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--cell", metavar="ID", help="One cell through all runs.")
@click.option("--target", metavar="GLOB", default="*", help="Only cells of these targets.")
@click.option("--op", metavar="GLOB", default="*", help="Only cells of these operators.")
@click.option("--flaky", is_flag=True, help="Same code and seed, another outcome.")
@click.option("--steps", is_flag=True, help="Where a metric took a new level.")
@click.option("--first-bad", is_flag=True, help="Since when what is red is red.")
@click.option(
    "--by",
    type=click.Choice(["cell", "op", "target"]),
    default="cell",
    show_default=True,
    help="Steps of single cells, or of the middle of all cells of an op or a target.",
)
@style_option("row")
@click.option(
    "--limit", type=click.IntRange(1), default=12, show_default=True, help="Rows a table."
)
@click.option("--no-cache", is_flag=True, help="Neither read nor write compact copies of runs.")
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
    """Show how the runs of a FOLDER (default: runs/) went, night by night.

    Without a choice: the last nights by target, step changes with the commits between which they
    began, cells that are red now with their first bad run, and flaky cells. The first time, each
    run is read in full and a compact copy kept in FOLDER/.history.

    Exit code 0 whatever is found, and 2 when no run can be read.
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
    shown = views.view(past, found, limit=limit)
    if style == "markdown":
        from reports.history import markdown

        click.echo(markdown.render(shown), nl=False)
    else:
        from reports.history import terminal

        terminal.render(shown)


def _progress(done: int, number: int) -> None:
    # A first read of a year of nights takes minutes; later ones say nothing.
    if sys.stderr.isatty() and done % 10 == 0 and number >= 20:
        click.echo(f"\r{done} of {number} runs", nl=done == number, err=True)
