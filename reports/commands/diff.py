"""``conform diff``: what changed between two runs."""

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
    help="Hold cells against each other, case by case: '*@xnnpack:fp32' '*@portable:fp32'.",
)
@style_option("change")
@click.option(
    "--only",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Only changes of this kind, such as newly-failing; may be repeated.",
)
@click.option("--target", metavar="GLOB", help="Only cells of these targets.")
@click.option("--sqnr-drop", type=float, metavar="DB", help="SQNR drop that counts.")
@click.option("--bytes-up", type=float, metavar="PERCENT", help="Program growth that counts.")
@click.option("--time-factor", type=float, metavar="FACTOR", help="Slowdown that counts.")
@click.option("--times-across-hosts", is_flag=True, help="Compare times of different hosts.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True,
              help="Changes to print of each kind.")  # fmt: skip
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
    """Compare two runs, worst changes first: what fails now, was fixed, came, went, got worse.

    BEFORE and AFTER are run folders or stored baselines. Differences of seed, commit, packages
    and host are printed first; times of different hosts are not compared.

    With --cells two targets are compared instead, of one run (without one, of the newest) or the
    first of BEFORE with the second of AFTER: what both get wrong points at the case or the oracle,
    what one alone gets wrong at that one.

    Exit code 0 whenever the two could be compared, whatever changed, and 2 when not; what goes
    red on changes is conform gate.
    """
    from reports.comparison.diff import Thresholds, diff
    from reports.comparison.diff.select import parse_kinds, select_changes

    if cells is not None:
        _across(before, after, cells, style, 6.0 if sqnr_drop is None else sqnr_drop, limit)
        return
    if before is None or after is None:
        raise click.UsageError("name two runs, or cells of one: conform diff --cells THESE THOSE")
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
        raise click.UsageError("--cells prints for a terminal, or as json")
    first = read_side(before or find_latest(RUNS))
    second = first if after is None else read_side(after)
    found = pair_up(first, cells[0], second, cells[1])
    if style == "json":
        click.echo(targets_report.plain(found))
    else:
        targets_report.render(found, decibels, limit=limit)
