"""``conform show`` and ``conform repro``: one cell."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.common import SPEED, SUITE_FOLDER, load_run, prepare, run_folder
from harness.cli.script_option import SCRIPT, write

if TYPE_CHECKING:
    from harness.pipeline.saving.cell_folder import CellFolder


# By status; every other status is red.
_EXIT_CODES = {"passed": 0, "xfailed": 0, "unsupported": 0, "unavailable": 2, "lowered": 2}


@click.command()
@click.argument("cell")
@run_folder("Run folder; default: the newest below runs/.")
@SUITE_FOLDER
@click.option(
    "--program/--no-program",
    default=True,
    show_default=True,
    help="Lower the cell again and print what its backend made of it (mlx: the instructions; "
    "metal: wrapper, kernels and contract; tosa and xnnpack: operators). Where it errs: conform "
    "trace.",
)
@SPEED
def show(cell: str, folder: Path | None, suites: Path, program: bool, speed: bool) -> None:
    """Print the record of one CELL: stages, delegation, numerics against bounds, error, program."""
    from rich.console import Console

    from harness.model import registry
    from harness.model.backend import Describing, Inspectable
    from harness.record.target import split_cell_id
    from harness.vendors.quiet import silence_vendors
    from reports.render import terminal

    name, target = split_cell_id(cell)
    loaded = load_run(folder)
    record = loaded.cell(cell)
    terminal.show(record, Console(), loaded)
    silence_vendors()  # a backend out of tree may import theirs when it loads
    # A record may name a backend, or a case, that is not here any more.
    known = program and target.backend in registry.names()
    if known and isinstance(registry.backend(target.backend), Inspectable | Describing):
        prepare(speed=speed)
        from harness.errors import UnknownCell
        from harness.pipeline.inspection import inspect
        from harness.session.discovery import find_case

        click.echo()
        try:
            case, _ = find_case(suites, name)
        except UnknownCell as error:
            click.echo(f"there is no program to show: {error}")
            return
        for line in inspect(case, target, seed=record.seed):
            click.echo(line)


@click.command()
@click.argument("cell")
@click.option("--seed", type=int, default=0, show_default=True, help="Run seed.")
@SUITE_FOLDER
@click.option(
    "--save",
    type=click.Path(path_type=Path),
    metavar="FOLDER|FILE.pte",
    help="Write into this folder: the program (.pte), inputs, actual and expected outputs and "
    "their bounds (.safetensors), and a BundledProgram (.bpte). A name that ends in .pte is a "
    "file, for the program alone.",
)
@SCRIPT
@SPEED
def repro(
    cell: str, seed: int, suites: Path, save: Path | None, script: Path | None, speed: bool
) -> None:
    """Run one CELL by name in this process and print its record.

    Exit code 0 when it passed, failed as a limitation predicts, or is unsupported, 2 when it was
    not executed because this host cannot, else 1.
    """
    prepare(speed=speed)
    from rich.console import Console

    from harness.execution.memory import allocations_limited
    from harness.model.selection import parse_targets
    from harness.pipeline.runner import run_cell
    from harness.pipeline.saving.cell_folder import CellFolder
    from harness.record.host import available_memory
    from harness.record.target import split_cell_id
    from harness.session.discovery import find_case
    from reports.render import terminal

    name, target = split_cell_id(cell)
    parse_targets([str(target)])
    case, suite = find_case(suites, name)
    alone = save is not None and save.suffix == ".pte"
    keep = None if save is None or alone else CellFolder(save)
    # A cell that allocates without end ends here as well, and not with the machine.
    with allocations_limited(available_memory()):
        made = run_cell(
            case,
            target,
            seed=seed,
            limitations=suite.limitations,
            save=save if alone else None,
            cell_folder=keep,
        )
    made.suite = suite.name
    terminal.show(made, Console())
    if save is not None:
        for line in _wrote(save, keep) if made.program_bytes else ["no program came to be saved"]:
            click.echo(line)
    if script is not None:
        write(script, case, target, seed, Console())
    sys.exit(_EXIT_CODES.get(made.status.value, 1))


def _wrote(save: Path, keep: CellFolder | None) -> list[str]:
    """What was written, and what was not and why."""
    if keep is None:
        return [f"wrote {save.resolve()}"]
    names = " ".join(sorted(path.name for path in save.iterdir()))
    missing = [f"no {name}: {why}" for name, why in keep.missing.items()]
    return [f"wrote {save.resolve()}: {names}", *missing]
