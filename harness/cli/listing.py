"""``conform backends`` and ``conform limitations``: what there is."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.common import SUITE_FOLDER, silence_vendors


@click.command()
def backends() -> None:
    """List the backends: recipes, whether they can execute here, versions, and why not."""
    silence_vendors()
    from importlib import metadata

    from rich.console import Console
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
    Console().print(table)


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
