"""``conform backends``, ``list`` and ``limitations``: what there is."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.common import SUITE_FOLDER, silence_vendors
from harness.record.target import LISTED

if TYPE_CHECKING:
    from rich.table import Table

    from harness.session.catalogue import Listed


@click.command()
@SUITE_FOLDER
def backends(suites: Path) -> None:
    """List the backends: recipes, whether they can execute here, versions, and why not.

    Below stands what selects each target: how many cells of a plain run and of a night are on it,
    and of which suites. A target that neither selects is run by --targets.
    """
    silence_vendors()
    from rich.console import Console
    from rich.table import Table

    from harness.session.catalogue import selected_cells

    out = Console()
    out.print(_backends())
    if not suites.is_dir():
        out.print(f"no cells: there is no folder {suites}; --suites names another")
        return
    table = Table(title="what selects them", title_justify="left", header_style="bold")
    table.add_column("target", overflow="fold")
    table.add_column("plain run", justify="right")
    table.add_column("night, beside", justify="right")
    table.add_column("suites", overflow="fold")
    for target, by_day, at_night, packages in selected_cells(suites):
        counts = (f"{number:,}" if number else "–" for number in (by_day, at_night))
        table.add_row(target, *counts, " ".join(packages) or f"none; --targets {target}")
    out.print(table)


def _backends() -> Table:
    from importlib import metadata

    from rich.table import Table

    from harness.model import registry

    table = Table(title="backends", title_justify="left", header_style="bold")
    for column in ("backend", "recipes", "executes here", "runtime", "packages"):
        table.add_column(column, overflow="fold")
    for name in registry.names():
        backend = registry.backend(name)
        state = backend.availability()
        versions = []
        for package in state.packages:
            try:
                versions.append(f"{package} {metadata.version(package)}")
            except metadata.PackageNotFoundError:
                versions.append(f"{package} (not installed)")
        table.add_row(
            name,
            " ".join(backend.recipes),
            "yes" if state.available else f"no: {state.reason}",
            state.runtime,
            ", ".join(versions),
        )
    return table


@click.command()
@SUITE_FOLDER
@click.option("--write", type=click.Path(path_type=Path), help="Write to this file instead.")
@click.option(
    "--stale",
    is_flag=True,
    help="Only those that can go: no supported release has the gap. Exit code 1 where there are.",
)
def limitations(suites: Path, write: Path | None, stale: bool) -> None:
    """Print every known limitation of the suites as a Markdown table."""
    silence_vendors()
    if stale:
        _stale(suites)
        return
    from harness.session.catalogue import limitation_table
    from reports import output

    table = limitation_table(suites)
    if write is None:
        click.echo(table)
    else:
        output.write(write, table.encode())


def _stale(suites: Path) -> None:
    from harness.session.catalogue import stale_limitations
    from harness.vendors.versions import oldest_supported, spelled

    found = stale_limitations(suites)
    for package, entry in found:
        click.echo(
            f"{package}: {entry.case} on {entry.target}, {spelled(entry.since, entry.until)}: "
            f"{entry.reason}"
        )
    if found:
        click.echo(f"{len(found)} can go: the oldest supported release is {oldest_supported()}")
        sys.exit(1)
    click.echo(f"none can go: every gap is there in {oldest_supported()} or a later release")


_WHAT = ("cases", "tags", "operators", "targets", "suites")


@click.command("list")
@click.argument("what", type=click.Choice(_WHAT), default="cases")
@SUITE_FOLDER
@click.option("--case", "cases", default="*", metavar="GLOB", help="Names; several with |.")
@click.option("--op", "ops", default="*", metavar="GLOB", help="Operators; several with |.")
@click.option("--tag", "tags", multiple=True, help="A tag that they have; can be repeated.")
@click.option("--targets", metavar="LIST", help=f"That run on one of these: {LISTED}.")
@click.option("--json", "as_json", is_flag=True, help="For other tools.")
def listing(
    what: str,
    suites: Path,
    cases: str,
    ops: str,
    tags: tuple[str, ...],
    targets: str | None,
    as_json: bool,
) -> None:
    """List the cases of the suites, or their tags, operators, targets or suites with how many cases
    each has.

    A case comes with its operator, its suite, its tags and its targets; those of the night stand in
    brackets. The name of a cell is CASE@TARGET.
    """
    silence_vendors()
    from dataclasses import asdict

    from harness.model.selection import parse_list
    from harness.session.catalogue import listed

    chosen = None if targets is None else parse_list(targets, "--targets")
    found = listed(suites, cases=cases, ops=ops, tags=tags, targets=chosen)
    if what == "cases":
        shown: Any = [asdict(each) for each in found]
        rows: list[tuple[str, ...]] = [
            (each.name, each.op, each.suite, " ".join(each.tags), " ".join(_on(each)))
            for each in found
        ]
    else:
        shown = dict(sorted(_counts(what, found).items()))
        rows = [(name, f"{number:,}") for name, number in shown.items()]
    if as_json:
        click.echo(json.dumps(shown, indent=1))
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
    if not rows:
        click.echo("conform: nothing matches", err=True)
        sys.exit(2)


def _on(case: Listed) -> list[str]:
    return [*case.targets, *(f"[{target}]" for target in case.nightly)]


def _counts(what: str, found: list[Listed]) -> Counter[str]:
    """How many cases each tag, operator, target or suite has."""
    of: dict[str, Callable[[Listed], Iterable[str]]] = {
        "tags": lambda case: case.tags,
        "operators": lambda case: [case.op] if case.op else [],
        "targets": lambda case: [*case.targets, *case.nightly],
        "suites": lambda case: [case.suite],
    }
    return Counter(name for case in found for name in of[what](case))
