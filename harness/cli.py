"""``conform``: run cells, read runs. ``--help`` and everything on records start without torch."""

from __future__ import annotations

import logging
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from harness.errors import ConformError, RunUnreadable
from reports.commands import baseline, dashboard, diff, export, gate, history, merge

SUITES = Path("suites")
RUNS = Path("runs")
_NOTHING_SELECTED = 5  # pytest.ExitCode.NO_TESTS_COLLECTED, without importing pytest for --help


_SPEED = click.option(
    "--speed/--no-speed",
    default=True,
    show_default=True,
    help="Keep what torch computes for every program again; programs are the same without.",
)


class _OneLineErrors(click.Group):
    """Turns every error raised on purpose into one line on stderr and exit code 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ConformError as error:
            click.echo(f"conform: {error}", err=True)
            ctx.exit(2)
        except OSError as error:
            click.echo(f"conform: {error.filename or 'I/O'}: {error.strerror or error}", err=True)
            ctx.exit(2)


@click.group(
    cls=_OneLineErrors,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="executorch-conform", prog_name="conform")
def main() -> None:
    """Multi-backend conformance for ExecuTorch.

    A cell is one case on one target, spelled CASE@BACKEND:RECIPE, for example
    linear/bias@xnnpack:fp32. Commands that read a run take its folder; without one they take
    the newest below runs/.
    """


@main.command()
def backends() -> None:
    """List the backends: recipes, whether they can execute here, versions, and why not."""
    _silence_vendors()
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


@main.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--targets", help="Comma-separated targets; default: those of a plain run.", metavar="LIST"
)
@click.option("-k", "keyword", help='Cells to select, such as "linear and tosa".', metavar="EXPR")
@click.option("-m", "marks", help='Tags to select, such as "dynamic".', metavar="EXPR")
@click.option("-n", "workers", help="Worker processes; default: one a core.", metavar="N")
@click.option("--seed", type=int, default=0, show_default=True, help="Run seed.")
@click.option("--run-dir", type=click.Path(path_type=Path), help="Folder of the record.")
@click.option("--cell-timeout", type=float, help="Seconds after which a cell is a timeout.")
@click.option(
    "--compare-runtimes", is_flag=True, help="Run natively and emulated where both are possible."
)
@click.option(
    "--lower-only",
    is_flag=True,
    help="Stop at the serialized programs: nothing is executed, cells end as lowered.",
)
@_SPEED
@click.argument("paths", nargs=-1, type=click.Path(exists=True))
def run(
    targets: str | None,
    keyword: str | None,
    marks: str | None,
    workers: str | None,
    seed: int,
    run_dir: Path | None,
    cell_timeout: float | None,
    compare_runtimes: bool,
    lower_only: bool,
    speed: bool,
    paths: Sequence[str],
) -> None:
    """Run cells of the suites and leave a run folder with a report.

    PATHS are suite folders or modules; default: all suites. This is pytest with the options
    of the plugin; the last line printed is the path of the HTML page.
    """
    from harness.record.folder import RUN_FILE, new_folder

    run_dir = run_dir or new_folder(RUNS)
    is_new = not (run_dir / RUN_FILE).exists()
    chosen = {
        "--targets": targets,
        "-k": keyword,
        "-m": marks,
        "-n": workers,
        "--seed": str(seed),
        "--cell-timeout": None if cell_timeout is None else str(cell_timeout),
        "--run-dir": str(run_dir),
    }
    options = [text for key, value in chosen.items() if value is not None for text in (key, value)]
    flags = {
        "--compare-runtimes": compare_runtimes,
        "--lower-only": lower_only,
        "--no-speed": not speed,
    }
    options += [name for name, is_set in flags.items() if is_set]
    command = [sys.executable, "-m", "pytest", "-q", *options, *(paths or [str(SUITES)])]
    status = subprocess.run(command, check=False).returncode
    if status == _NOTHING_SELECTED:
        click.echo(
            "conform: no cell matches; see what there is with: pytest suites --collect-only -q",
            err=True,
        )
    page = run_dir / "report.html"
    # An older run's page, or none on a full disk, is not this run's.
    if is_new and page.exists():
        click.echo(page.resolve())
    sys.exit(status)


@main.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
def report(folder: Path | None) -> None:
    """Print a run and write report.md and report.html into its folder.

    The last line printed is the path of the HTML page.
    """
    from rich.console import Console

    from reports.render import terminal
    from reports.render.folder import write
    from reports.summary import Summary

    found = Summary.of(_load(folder))
    terminal.render(found, Console())
    click.echo(write(found))


@main.command()
@click.argument("cell")
@click.option("--run", "folder", type=click.Path(path_type=Path), help="Run folder.")
@click.option("--suites", type=click.Path(path_type=Path), default=SUITES, help="Suite folder.")
@click.option(
    "--program/--no-program",
    default=True,
    show_default=True,
    help="Lower the cell again and print what its backend made of it (mlx: the instructions, "
    "and the first one that leaves the reference; metal: wrapper, kernels and contract).",
)
@_SPEED
def show(cell: str, folder: Path | None, suites: Path, program: bool, speed: bool) -> None:
    """Print the record of one CELL: stages, delegation, numerics against bounds, error, program."""
    from rich.console import Console

    from harness import registry
    from harness.backend import Inspectable
    from harness.target import split_cell_id
    from reports.render import terminal

    name, target = split_cell_id(cell)
    loaded = _load(folder)
    record = loaded.cell(cell)
    terminal.show(record, Console(), loaded)
    # A record may name a backend, or a case, that is not here any more.
    known = target.backend in registry.names()
    if program and known and isinstance(registry.backend(target.backend), Inspectable):
        _prepare(speed=speed)
        from harness.collection.discovery import find_case
        from harness.errors import UnknownCell
        from harness.pipeline.inspection import inspect

        click.echo()
        try:
            case, _ = find_case(suites, name)
        except UnknownCell as error:
            click.echo(f"there is no program to show: {error}")
            return
        for line in inspect(case, target, seed=record.seed):
            click.echo(line)


@main.command()
@click.option("--suites", type=click.Path(path_type=Path), default=SUITES, help="Suite folder.")
@click.option("--write", type=click.Path(path_type=Path), help="Write to this file instead.")
def limitations(suites: Path, write: Path | None) -> None:
    """Print every known limitation of the suites as a Markdown table."""
    _silence_vendors()
    from harness.collection.catalogue import limitation_table
    from reports import output

    table = limitation_table(suites)
    if write is None:
        click.echo(table)
    else:
        output.write(write, table.encode())


@main.command()
@click.argument("cell")
@click.option("--seed", type=int, default=0, show_default=True, help="Run seed.")
@click.option("--suites", type=click.Path(path_type=Path), default=SUITES, help="Suite folder.")
@click.option("--save", type=click.Path(path_type=Path), help="Write the .pte program here.")
@_SPEED
def repro(cell: str, seed: int, suites: Path, save: Path | None, speed: bool) -> None:
    """Run one CELL by name in this process and print its record.

    Exit code 0 when it passed, failed as a limitation predicts, or is unsupported; else 1.
    """
    _prepare(speed=speed)
    from rich.console import Console

    from harness import registry
    from harness.collection.discovery import find_case
    from harness.pipeline.runner import run_cell
    from harness.target import split_cell_id
    from reports.render import terminal

    name, target = split_cell_id(cell)
    registry.parse_targets([str(target)])
    case, suite = find_case(suites, name)
    made = run_cell(case, target, seed=seed, limitations=suite.limitations, save=save)
    made.suite = suite.name
    terminal.show(made, Console())
    # Only what ran as expected, or is declared as out of scope, is green.
    fine = made.status.value in ("passed", "xfailed", "unsupported")
    sys.exit(0 if fine else 1)


def _prepare(*, speed: bool) -> None:
    """Before this process lowers: no noise of vendors, and torch kept quick if that is wanted."""
    _silence_vendors()
    if speed:
        from harness.pipeline import speed as keeping

        keeping.install()


def _silence_vendors() -> None:
    """What vendors' imports log and warn of is not what the user asked for."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")


def _load(folder: Path | None) -> Any:
    from harness.record.folder import latest, load

    if folder is not None and not folder.is_dir():
        raise RunUnreadable(f"{folder} is not a folder; list the runs with: ls {RUNS}")
    return load(folder or latest(RUNS))


main.add_command(baseline.command)
main.add_command(dashboard.command)
main.add_command(diff.command)
main.add_command(gate.command)
main.add_command(merge.command)
main.add_command(export.command)
main.add_command(history.command)


if __name__ == "__main__":
    main()
