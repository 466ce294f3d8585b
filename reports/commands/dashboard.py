"""``conform dashboard``: a static site of many runs."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("dashboard")
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--last",
    type=click.IntRange(1),
    default=60,
    show_default=True,
    metavar="N",
    help="Show the newest N runs.",
)
@click.option(
    "--full",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    metavar="N",
    help="Include all records of the newest N runs; older runs keep only red cells.",
)
def command(out: Path, runs: tuple[Path, ...], last: int, full: int) -> None:
    """Write a static site of many runs into the folder OUT. It opens from disk without a server.

    RUNS are folders of runs, or run folders; default: runs/. The command creates OUT or replaces
    an older site in it, and refuses any other folder with files. The last line of output is the
    path of the page.
    """
    from reports import site, text

    made = site.write(out, runs or [Path("runs")], full=full, last=last)
    for remark in made.remarks:
        click.echo(f"conform: {text.line(remark)}", err=True)
    click.echo(
        f"{text.count(made.runs, 'run')}, {text.count(made.cells, 'cell')}, {text.size(made.size)}"
    )
    click.echo(made.index)
