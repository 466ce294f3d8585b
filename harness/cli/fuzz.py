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
def fuzz(targets: str, minutes: float, seed: int, out: Path, random: bool) -> None:
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
    from harness.extras.fuzzing.messages import FoundProgram, FuzzRequest, ProgramStarted
    from harness.model import registry
    from harness.model.selection import parse_list

    chosen = parse_list(targets, "--targets") if targets else registry.default_targets()
    request = FuzzRequest(
        targets=[str(target) for target in chosen],
        seconds=minutes * 60,
        seed=seed,
        may_draw=random,
    )
    found: list[FoundProgram] = []
    tried = 0
    with Live(console=Console(stderr=True), refresh_per_second=2, transient=True) as live:

        def show_progress(started: ProgramStarted) -> None:
            nonlocal tried
            tried = started.tried
            live.update(Text(f"{tried} programs tried, {len(found)} found; now {started.name}"))

        for report in run_campaign(request, out, on_program=show_progress):
            found.append(report)
            live.console.print(f"{report.target}: {report.message[:200]}", markup=False)
    console = Console()
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
