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
    help="Format of the file; required.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="File to write; required.",
)
@click.option("--table", metavar="NAME", help="Table to write; default: cells, one row per record.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(
    runs: tuple[Path, ...], style: str, output: Path, table: str | None, force: bool
) -> None:
    """Export a run to Parquet, CSV, JSON or JUnit XML.

    RUNS is a run folder; default: the newest in runs/. The table environment accepts several runs
    and has a column for each.

    Tables: cells, coverage, delegation, environment, failures, histogram-bound, histogram-sqnr,
    largest, left-over, limitations, matrix, not-run, numerics, slowest, totals.

    In CSV, an apostrophe precedes every text that a spreadsheet would read as a formula (it begins
    with = + - @, a tab or a line break) and every text that begins with an apostrophe. In JUnit
    XML, unavailable and not-run cells are errors; xfailed, unsupported, lowered-only and vacuously
    passed cells are skipped, with the reason.
    """
    from harness.record.folder import find_latest
    from reports import export
    from reports.commands.common import read_run

    loaded = [read_run(folder) for folder in (runs or (find_latest(Path("runs")),))]
    export.write(output, export.render(loaded, style, table), force=force)
    click.echo(output)
