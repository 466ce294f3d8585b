"""``conform export``: a run as Parquet, CSV, JSON or JUnit XML."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("export")
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "style",
    type=click.Choice(["parquet", "csv", "json", "junit"]),
    required=True,
    help="What to write.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The file.")
@click.option("--table", metavar="NAME", help="Which table; default: cells, a row a record.")
@click.option("--force", is_flag=True, help="Overwrite the file if it is there.")
def command(
    runs: tuple[Path, ...], style: str, output: Path, table: str | None, force: bool
) -> None:
    """Write a run for other tools.

    RUNS is a run folder; without one the newest below runs/. The table environment takes several
    and has a column for each.

    Tables: cells, coverage, delegation, environment, failures, histogram-bound, histogram-sqnr,
    largest, left-over, limitations, matrix, not-run, numerics, slowest, totals.

    In CSV, a text that a spreadsheet would take for a formula (it begins with = + - @, a tab or
    a line break) has an apostrophe in front; so has one that begins with an apostrophe. In JUnit
    XML, unavailable and not-run cells are errors; xfailed, unsupported and lowered-only ones, and
    passes that any constant would have got, are skipped, with the reason.
    """
    from harness.record.folder import find_latest
    from reports import export
    from reports.commands.common import read_run

    loaded = [read_run(folder) for folder in (runs or (find_latest(Path("runs")),))]
    export.write(output, export.render(loaded, style, table), force=force)
    click.echo(output)
