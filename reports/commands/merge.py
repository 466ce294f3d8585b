"""``conform merge``: runs of several hosts or shards as one."""

from __future__ import annotations

from pathlib import Path

import click

from reports.commands.common import read_run

_SHOWN = 20


@click.command("merge")
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
def command(out: Path, runs: tuple[Path, ...]) -> None:
    """Make one run folder OUT of several RUNS.

    Overlaps and conflicts are printed and kept: the worst record of a cell counts, and a host
    that could not execute a cell yields to one that did. Each cell keeps the environment of its
    part. The merged run is complete only if all parts are.

    Exit code 0 when it was written, also with conflicts: those are problems of the merged run,
    which conform gate does not let pass.
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
