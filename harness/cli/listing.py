"""``conform backends`` and ``conform limitations``: what there is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.common import SUITE_FOLDER, silence_vendors

if TYPE_CHECKING:
    from rich.table import Table


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

    from harness.collection.catalogue import selected_cells

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

    from harness import registry

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
def limitations(suites: Path, write: Path | None) -> None:
    """Print every known limitation of the suites as a Markdown table."""
    silence_vendors()
    from harness.collection.catalogue import limitation_table
    from reports import output

    table = limitation_table(suites)
    if write is None:
        click.echo(table)
    else:
        output.write(write, table.encode())
