"""``conform list``: cases, backends, limitations, fallback nodes, settings."""

from __future__ import annotations

import copy
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.common import SUITE_FOLDER, run_folder, silence_vendors
from harness.record.target import TARGET_LIST_HELP

if TYPE_CHECKING:
    from rich.table import Table

    from harness.session.catalogue import ListedCase


@click.command()
@SUITE_FOLDER
def backends(suites: Path) -> None:
    """List backends: recipes, runtime, versions, and why one cannot execute here.

    A second table counts the cells that a plain run and a nightly run select on each target, and
    names their suites. Targets that neither run selects need --targets.
    """
    silence_vendors()
    from rich.console import Console
    from rich.table import Table

    from harness.session.catalogue import count_cells

    out = Console()
    out.print(_backends())
    if not suites.is_dir():
        out.print(f"no cells: folder {suites} does not exist; name another one with --suites")
        return
    table = Table(title="cells by target", title_justify="left", header_style="bold")
    table.add_column("target", overflow="fold")
    table.add_column("plain run", justify="right")
    table.add_column("nightly, in addition", justify="right")
    table.add_column("suites", overflow="fold")
    for target, plain, nightly, packages in count_cells(suites):
        counts = (f"{number:,}" if number else "–" for number in (plain, nightly))
        table.add_row(target, *counts, " ".join(packages) or f"none; --targets {target}")
    out.print(table)


def _backends() -> Table:
    from importlib import metadata

    from rich.table import Table
    from rich.text import Text

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
            # As Text: names of extras are in brackets, which Rich would read as markup.
            Text("yes" if state.available else f"no: {state.reason}"),
            state.runtime,
            ", ".join(versions),
        )
    return table


@click.command()
@SUITE_FOLDER
@click.option("--write", type=click.Path(path_type=Path), help="Write the table to this file.")
@click.option(
    "--stale",
    is_flag=True,
    help="List only entries that no supported release needs; exit code 1 if there are any.",
)
def limitations(suites: Path, write: Path | None, stale: bool) -> None:
    """Print the limitations of the suites as a Markdown table."""
    silence_vendors()
    if stale:
        _print_stale(suites)
        return
    from harness.session.catalogue import render_limitations
    from reports import output

    table = render_limitations(suites)
    if write is None:
        click.echo(table)
    else:
        output.write(write, table.encode())


def _print_stale(suites: Path) -> None:
    from harness.session.catalogue import find_closed_limitations
    from harness.vendors.versions import describe_range, oldest_supported

    found = find_closed_limitations(suites)
    for package, entry in found:
        click.echo(
            f"{package}: {entry.case} on {entry.target}, "
            f"{describe_range(entry.since, entry.until)}: "
            f"{entry.reason}"
        )
    if found:
        click.echo(
            f"{len(found)} can be removed: the oldest supported release is {oldest_supported()}"
        )
        sys.exit(1)
    click.echo(f"none can be removed: each applies to {oldest_supported()} or a later release")


@click.command()
@run_folder
@SUITE_FOLDER
@click.option("--write", is_flag=True, help="Update fallbacks.json in the folders of the suites.")
def fallbacks(folder: Path | None, suites: Path, write: bool) -> None:
    """List the cells of RUN that leave nodes outside of their delegates.

    Quantize and dequantize nodes do not count. With --write, later runs fail cells that leave more:
    use it after the change of a suite or of ExecuTorch, and read the difference before you commit.
    RUN is by default the newest in runs/.
    """
    silence_vendors()
    from harness.cli.common import load_run
    from harness.model.fallbacks import FILE, count_fallbacks, update_fallbacks

    cells = load_run(folder).cells
    if not write:
        delegating = {cell.target for cell in cells if not cell.delegation.is_empty}
        for cell in cells:
            left = count_fallbacks(cell.delegation)
            if left and cell.target in delegating:
                listing = ", ".join(f"{number} {name}" for name, number in left.items())
                click.echo(f"{cell.id}: {listing}")
        return
    from harness.session.discovery import load_suites

    cases: dict[Path, list[str]] = {}
    for suite in load_suites(suites):
        cases.setdefault(suite.path.parent, []).extend(case.name for case in suite.cases)
    ran = {cell.case for cell in cells}
    for place, names in cases.items():
        if ran.intersection(names) and update_fallbacks(place, cells, names):
            click.echo(f"updated {place / FILE}")


@click.command()
def settings() -> None:
    """List the settings that a target can name, as in xnnpack:fp32+strict.

    A target has one setting of a choice at most. conform check --vary runs a model with them.
    """
    silence_vendors()
    from rich.console import Console
    from rich.table import Table

    from harness.model import registry
    from harness.model.variations.covering import list_choices
    from harness.model.variations.varied_recipe import list_settings

    can_have: dict[str, list[str]] = {}
    described = {}
    for target in registry.known_targets():
        described.update(list_settings(registry.backend(target.backend)))
        for names in list_choices(target).values():
            for name in names:
                can_have.setdefault(name, []).append(str(target))
    table = Table(title="settings: +SETTING", title_justify="left", header_style="bold")
    for column in ("setting", "choice", "effect", "targets"):
        table.add_column(column, overflow="fold")
    for name, setting in described.items():
        table.add_row(name, setting.choice, setting.about, " ".join(can_have.get(name, ["none"])))
    Console().print(table)


class _ListGroup(click.Group):
    """Lists cases if the command line names no subject."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        names_subject = args and (args[0] in ctx.help_option_names or not args[0].startswith("-"))
        return super().parse_args(ctx, args if names_subject else ["cases", *args])


@click.group("list", cls=_ListGroup)
def listing() -> None:
    """List cases, tags, operators, targets, suites, backends, settings, limitations or
    fallback nodes.

    The default is cases.
    """


@listing.command()
@SUITE_FOLDER
@click.option(
    "--case", default="*", metavar="GLOB", help="Show these names; separate globs with |."
)
@click.option(
    "--op", default="*", metavar="GLOB", help="Show these operators; globs as for --case."
)
@click.option("--tag", multiple=True, help="Show cases with this tag; repeatable.")
@click.option("--targets", metavar="LIST", help=f"Show cases on these targets: {TARGET_LIST_HELP}.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def cases(
    context: click.Context,
    suites: Path,
    case: str,
    op: str,
    tag: tuple[str, ...],
    targets: str | None,
    as_json: bool,
) -> None:
    """List cases: name, operator, suite, tags and targets; nightly targets are in brackets.

    The name of a cell is CASE@TARGET.
    """
    what = context.info_name or "cases"
    silence_vendors()
    from dataclasses import asdict

    from harness.model.selection import parse_list
    from harness.session.catalogue import list_cases

    chosen = None if targets is None else parse_list(targets, "--targets")
    found = list_cases(suites, cases=case, ops=op, tags=tag, targets=chosen)
    if what == "cases":
        shown: Any = [asdict(each) for each in found]
        rows: list[tuple[str, ...]] = [
            (each.name, each.op, each.suite, " ".join(each.tags), " ".join(_target_labels(each)))
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


listing.add_command(backends)
listing.add_command(limitations)
listing.add_command(fallbacks)
listing.add_command(settings)
for _what in ("tags", "operators", "targets", "suites"):
    _counted = copy.copy(cases)
    _counted.help = f"List {_what}, each with its number of cases."
    listing.add_command(_counted, _what)


def _target_labels(case: ListedCase) -> list[str]:
    return [*case.targets, *(f"[{target}]" for target in case.nightly)]


def _counts(what: str, found: list[ListedCase]) -> Counter[str]:
    """Count the cases of each tag, operator, target or suite."""
    names_of: dict[str, Callable[[ListedCase], Iterable[str]]] = {
        "tags": lambda case: case.tags,
        "operators": lambda case: [case.op] if case.op else [],
        "targets": lambda case: [*case.targets, *case.nightly],
        "suites": lambda case: [case.suite],
    }
    return Counter(name for case in found for name in names_of[what](case))
