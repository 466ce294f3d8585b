"""``conform fuzz``: search for programs for which a target computes wrong results."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from harness.cli.common import ABOVE_ZERO
from harness.record.target import TARGET_LIST_HELP, cell_id

FOLDER = Path("fuzz")


@click.command()
@click.option(
    "--targets",
    default="",
    help=f"Use these targets, separated by commas: {TARGET_LIST_HELP}.  [default: plain targets]",
    metavar="LIST",
)
@click.option(
    "--minutes", type=ABOVE_ZERO, default=5.0, show_default=True, help="Search for this long."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Use this seed.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=FOLDER, show_default=True,
    help="Write a file to this folder for each red program.",
)  # fmt: skip
@click.option("--random", is_flag=True, help="Include operators that draw random numbers.")
@click.option(
    "--guided", is_flag=True,
    help="Prefer programs that execute lowering code which nothing else does, and write each that "
    "is the first to execute some lines to OUT/reached.",
)  # fmt: skip
@click.option(
    "--recorded", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR",
    help="With --guided: the run of conform coverage record whose cells execute known code.  "
    "[default: the newest in runs/, if there is one]",
)  # fmt: skip
def fuzz(
    targets: str,
    minutes: float,
    seed: int,
    out: Path,
    random: bool,
    guided: bool,
    recorded: Path | None,
) -> None:
    """Generate programs, run them on targets, and shrink each program that is red.

    Each shrunk program becomes a file with a case, which conform repro CELL --suites OUT runs
    again. A program counts as already found if it contains the operators of a smaller one and
    fails the same way. Programs that show a known issue are listed with its cause. Exit code 0 if
    no program is red for another reason, 1 if one is, 2 if the search could not run.
    """
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    from harness.extras.fuzzing.campaign import run_campaign
    from harness.extras.fuzzing.messages import (
        FoundProgram,
        FuzzRequest,
        ProgramStarted,
        ReachedCode,
    )
    from harness.model import registry
    from harness.model.selection import parse_list

    if recorded is not None and not guided:
        raise click.UsageError("--recorded needs --guided")
    if guided and recorded is None:
        recorded = _find_recorded_run()
    chosen = parse_list(targets, "--targets") if targets else registry.default_targets()
    request = FuzzRequest(
        targets=[str(target) for target in chosen],
        seconds=minutes * 60,
        seed=seed,
        may_draw=random,
        is_guided=guided,
        recorded="" if recorded is None else str(recorded.resolve()),
    )
    found: list[FoundProgram] = []
    reached: list[ReachedCode] = []
    tried = 0
    with Live(console=Console(stderr=True), refresh_per_second=2, transient=True) as live:

        def show_progress(started: ProgramStarted) -> None:
            nonlocal tried
            tried = started.tried
            new = f", {len(reached)} reach new code" if guided else ""
            live.update(Text(f"{tried} programs tried, {len(found)} red{new}; now {started.name}"))

        for report in run_campaign(request, out, on_program=show_progress):
            if isinstance(report, ReachedCode):
                reached.append(report)
                live.console.print(f"reached {', '.join(report.places)[:200]}", markup=False)
            else:
                found.append(report)
                live.console.print(f"{report.target}: {report.message[:200]}", markup=False)
    console = Console()
    if reached:
        table = Table(title=f"{len(reached)} reach code that no recorded cell executes",
                      title_justify="left", header_style="bold")  # fmt: skip
        for column in ("case", "steps", "lines"):
            table.add_column(column, overflow="fold")
        for each in reached:
            lines = "\n".join(each.places[:4]) + ("\n..." if len(each.places) > 4 else "")
            table.add_row(*map(Text, (each.name, str(each.step_count), lines)))
        console.print(table)
        where = f"their cases are in {out / 'reached'}"
        console.print(where, markup=False, highlight=False, soft_wrap=True)
    if found:
        known = sum(bool(report.known) for report in found)
        title = f"{len(found)} found, {known} with a known issue"
        table = Table(title=title, title_justify="left", header_style="bold")
        for column in ("case", "target", "steps", "problem", "known issue"):
            table.add_column(column, overflow="fold")
        for report in sorted(found, key=lambda report: bool(report.known)):
            cause = report.known[0][:120] if report.known else ""
            table.add_row(
                *map(Text, (report.name, report.target, str(report.step_count))),
                *map(Text, (report.message[:160], cause)),
            )
        console.print(table)
        again = f"conform repro {cell_id(found[0].name, found[0].target)} --suites {out}"
        console.print(f"run one again: {again}", markup=False, highlight=False, soft_wrap=True)
    names = ", ".join(map(str, chosen))
    console.print(f"{tried} programs tried on {names}", markup=False, highlight=False)
    sys.exit(1 if any(not report.known for report in found) else 0)


def _find_recorded_run() -> Path | None:
    """Return the newest recorded run; say what is missing without one."""
    from harness.cli.coverage.affected import find_recorded_run
    from harness.coverage.coverage_map import MapUnreadable

    try:
        return find_recorded_run()
    except MapUnreadable as error:
        click.echo(f"{error}; without one, only code of earlier programs is known", err=True)
        return None
