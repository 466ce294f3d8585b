"""``conform diff``: changes between two runs."""

from __future__ import annotations

from pathlib import Path

import click

from reports.commands.common import RUNS, read_side, style_option


@click.command("diff")
@click.argument("before", required=False, type=click.Path(path_type=Path))
@click.argument("after", required=False, type=click.Path(path_type=Path))
@click.option(
    "--cells",
    nargs=2,
    metavar="THESE THOSE",
    help="Compare cells of two globs, case by case: '*@xnnpack:fp32' '*@portable:fp32'.",
)
@style_option("change")
@click.option(
    "--only",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Show only changes of this kind, such as newly-failing; may be repeated.",
)
@click.option("--target", metavar="GLOB", help="Show only cells of these targets.")
@click.option("--sqnr-drop", type=float, metavar="DB", help="Smallest SQNR drop to report.")
@click.option(
    "--bytes-up", type=float, metavar="PERCENT", help="Smallest growth of a program to report."
)
@click.option("--time-factor", type=float, metavar="FACTOR", help="Smallest slowdown to report.")
@click.option("--times-across-hosts", is_flag=True, help="Compare times of different hosts.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True,
              help="Print at most this many changes of each kind.")  # fmt: skip
def command(
    before: Path | None,
    after: Path | None,
    cells: tuple[str, str] | None,
    style: str,
    kinds: tuple[str, ...],
    target: str | None,
    sqnr_drop: float | None,
    bytes_up: float | None,
    time_factor: float | None,
    times_across_hosts: bool,
    limit: int,
) -> None:
    """Compare two runs and list the changed cells, worst changes first.

    BEFORE and AFTER are run folders or stored baselines. The command first
    prints differences of seed, commit, packages and host. It does not compare times of different
    hosts.

    With --cells, compare two targets instead: of one run (default: the newest), or the first glob
    in BEFORE with the second in AFTER. A mismatch on both targets points at the case or the
    oracle, a mismatch on one target at its backend.

    Exit code 0 if the runs are comparable, whatever changed, and 2 if not. Use conform gate to fail
    on changes.
    """
    from reports.comparison.diff import Thresholds, diff
    from reports.comparison.diff.select import parse_kinds, select_changes

    if cells is not None:
        _across(before, after, cells, style, 6.0 if sqnr_drop is None else sqnr_drop, limit)
        return
    if before is None or after is None:
        raise click.UsageError(
            "name two runs, or two globs of cells: conform diff --cells THESE THOSE"
        )
    wanted = parse_kinds(kinds)
    usual = Thresholds()
    limits = Thresholds(
        sqnr_drop_db=usual.sqnr_drop_db if sqnr_drop is None else sqnr_drop,
        bytes_up_percent=usual.bytes_up_percent if bytes_up is None else bytes_up,
        time_factor=usual.time_factor if time_factor is None else time_factor,
    )
    found = diff(read_side(before), read_side(after), limits, times_across_hosts=times_across_hosts)
    found = select_changes(found, kinds=wanted, target=target)
    if style == "json":
        from reports.comparison.diff import plain

        click.echo(plain.render(found))
    elif style == "markdown":
        from reports.comparison.diff import markdown

        click.echo(markdown.render(found, limit=limit), nl=False)
    else:
        from reports.comparison.diff import terminal

        terminal.render(found, limit=limit)


def _across(
    before: Path | None,
    after: Path | None,
    cells: tuple[str, str],
    style: str,
    decibels: float,
    limit: int,
) -> None:
    from harness.record.folder import find_latest
    from reports.comparison import targets_report
    from reports.comparison.targets import pair_up

    if style == "markdown":
        raise click.UsageError("--cells does not support --format markdown; use terminal or json")
    first = read_side(before or find_latest(RUNS))
    second = first if after is None else read_side(after)
    found = pair_up(first, cells[0], second, cells[1])
    if style == "json":
        click.echo(targets_report.plain(found))
    else:
        targets_report.render(found, decibels, limit=limit)
