"""``conform merge``: merge runs of several hosts or shards into one."""

from __future__ import annotations

from pathlib import Path

import click

from reports.commands.common import read_run

_SHOWN = 20


@click.command("merge")
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
def command(out: Path, runs: tuple[Path, ...]) -> None:
    """Merge several RUNS into one run folder OUT.

    The command prints overlaps and conflicts and keeps all records. The worst record of a cell
    counts, but a record of a host that could not execute the cell does not count beside one of a
    host that did. Each cell keeps the environment of its part. The merged run is complete only if
    all parts are.

    Exit code 0 if OUT was written, even with conflicts: they become problems of the merged run,
    and conform gate then cannot judge it.
    """
    from reports import text
    from reports.comparison.merge import merge

    made = merge(out, [read_run(folder) for folder in runs])
    run = made.run
    number = text.count(len({cell.id for cell in run.cells}), "cell")
    parts = text.count(len(run.info.merged_from), "part")
    state = "complete" if run.is_complete else "INCOMPLETE"
    click.echo(f"{number} of {parts}, {state}; {made.overlaps:,} in several parts, "
               f"{text.count(len(made.conflicts), 'conflict')}")  # fmt: skip
    # Conflicts are among the problems.
    for title, lines in (("problem", run.info.problems), ("remark", made.remarks)):
        for line in lines[:_SHOWN]:
            click.echo(f"{title}: {text.line(line, 500)}")
        if len(lines) > _SHOWN:
            click.echo(f"and {text.count(len(lines) - _SHOWN, f'more {title}')}")
    click.echo(out)
