"""``conform show`` and ``conform repro``: print one cell or program, run one cell."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.common import SPEED, SUITE_FOLDER, load_run, prepare, run_folder
from harness.cli.programs.commands import print_program
from harness.cli.script_option import SCRIPT, write_and_run_script

if TYPE_CHECKING:
    from harness.pipeline.saving.cell_folder import CellFolder


# By status; every other status is red.
_EXIT_CODES = {"passed": 0, "xfailed": 0, "unsupported": 0, "unavailable": 2, "lowered": 2}


@click.command()
@click.argument("cell", metavar="CELL|PROGRAM.pte")
@run_folder
@SUITE_FOLDER
@click.option(
    "--program/--no-program",
    default=True,
    show_default=True,
    help="Print the content of payloads (mlx: instructions; metal: wrapper, kernels and contract; "
    "tosa and xnnpack: operators). A cell is lowered again for it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@SPEED
def show(
    cell: str, folder: Path | None, suites: Path, program: bool, as_json: bool, speed: bool
) -> None:
    """Print the record of one CELL, or the contents of a PROGRAM.

    Of a cell: stages, delegation, numerics, bounds, error, program; RUN is its run folder, by
    default the newest in runs/. Of a program: methods, delegates, kernels, data, memory, payloads;
    it is not executed.
    """
    if cell.endswith(".pte"):
        if folder is not None:
            raise click.UsageError(f"{cell} is a program, which belongs to no run; omit {folder}")
        print_program(Path(cell), as_json=as_json, listings=program)
        return
    from rich.console import Console

    from harness.model import registry
    from harness.model.backend import DescribesPayloads, InspectsCells
    from harness.record.target import split_cell_id
    from harness.vendors.quiet import silence_vendors
    from reports.render import terminal_cell

    name, target = split_cell_id(cell)
    loaded = load_run(folder)
    record = loaded.cell(cell)
    if as_json:
        click.echo(record.to_json())
        return
    terminal_cell.show(record, Console(), loaded)
    silence_vendors()  # loading a backend from another package may import its vendor
    # The record may be older than the removal of its backend or case.
    has_backend = program and target.backend in registry.names()
    if has_backend and isinstance(
        registry.backend(target.backend), InspectsCells | DescribesPayloads
    ):
        prepare(speed=speed)
        from harness.errors import UnknownCell
        from harness.pipeline.explain.inspection import inspect
        from harness.session.discovery import find_case

        click.echo()
        try:
            case, _ = find_case(suites, name)
        except UnknownCell as error:
            click.echo(f"cannot show the program: {error}")
            return
        for line in inspect(case, target, seed=record.seed):
            click.echo(line)


@click.command()
@click.argument("cell")
@click.option("--seed", type=int, default=0, show_default=True, help="Use this run seed.")
@SUITE_FOLDER
@click.option(
    "--save",
    type=click.Path(path_type=Path),
    metavar="FOLDER|FILE.pte",
    help="Write the program (.pte), inputs, actual and expected outputs and their bounds "
    "(.safetensors), and a BundledProgram (.bpte) to this folder; or only the program to "
    "FILE.pte.",
)
@SCRIPT
@SPEED
def repro(
    cell: str, seed: int, suites: Path, save: Path | None, script: Path | None, speed: bool
) -> None:
    """Run one CELL in this process and print its record.

    Exit code 0 if the cell passes, fails as a limitation predicts or is unsupported, 2 if it was
    not executed because this host cannot execute it, 1 otherwise.
    """
    prepare(speed=speed)
    from rich.console import Console

    from harness.model.selection import parse_targets
    from harness.pipeline.cell_options import CellOptions
    from harness.pipeline.runner import run_cell
    from harness.pipeline.saving.cell_folder import CellFolder
    from harness.record.host import available_memory
    from harness.record.target import split_cell_id
    from harness.session.discovery import find_case
    from harness.workers.memory import limit_allocations
    from reports.render import terminal_cell

    name, target = split_cell_id(cell)
    parse_targets([str(target)])
    case, suite = find_case(suites, name)
    saves_only_program = save is not None and save.suffix == ".pte"
    keep = None if save is None or saves_only_program else CellFolder(save)
    # A cell that allocates without end must not exhaust the machine.
    with limit_allocations(available_memory()):
        record = run_cell(
            case,
            target,
            seed=seed,
            limitations=suite.limitations,
            options=CellOptions(save=save if saves_only_program else None, cell_folder=keep),
        )
    record.suite = suite.name
    terminal_cell.show(record, Console())
    if save is not None:
        saved = _describe_saved(save, keep) if record.program_bytes else ["no program to save"]
        for line in saved:
            click.echo(line)
    if script is not None:
        write_and_run_script(script, case, target, seed, Console())
    sys.exit(_EXIT_CODES.get(record.status.value, 1))


def _describe_saved(save: Path, keep: CellFolder | None) -> list[str]:
    """List the files that were written, and the files that were not, with the reason."""
    if keep is None:
        return [f"wrote {save.resolve()}"]
    names = " ".join(sorted(path.name for path in save.iterdir()))
    missing = [f"no {name}: {why}" for name, why in keep.missing.items()]
    return [f"wrote {save.resolve()}: {names}", *missing]
