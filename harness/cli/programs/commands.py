"""``conform exec``, and ``conform show`` of a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.common import silence_vendors
from harness.errors import ProgramError

if TYPE_CHECKING:
    from harness.execution.program import Program
    from harness.model.case import Inputs

PROGRAM = click.argument("program", type=click.Path(path_type=Path), metavar="PROGRAM.pte")


@click.command(hidden=True, deprecated="Use: conform show PROGRAM.pte")
@PROGRAM
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--listing/--no-listing", default=True, help="Print the content of payloads.")
def inspect(program: Path, as_json: bool, listing: bool) -> None:
    """Print the contents of a program."""
    print_program(program, as_json=as_json, listings=listing)


def print_program(program: Path, *, as_json: bool, listings: bool) -> None:
    """Print the contents of a program: methods, delegates, kernels, data, memory, payloads.

    Args:
        program: its file. It is not executed.
        as_json: whether to print JSON.
        listings: whether to print the content of payloads that their backends can read.
    """
    silence_vendors()
    from rich.console import Console

    from harness.execution.any_program.description import describe_program

    data = _read(program)
    with _name_file_in_errors(program):
        found = describe_program(data, listings=listings)
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(found)))
        return
    from harness.cli.programs import program_text

    program_text.show(program, found, Console())


@click.command("exec")
@PROGRAM
@click.option(
    "--inputs",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Call the program with these inputs: .pt .npy .npz .safetensors, an image or a .wav. "
    "Repeat for further calls; state persists.",
)
@click.option(
    "--random", is_flag=True, help="Call the program with random inputs of the declared types."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Use this seed for --random.")
@click.option("--method", help="Run this method.  [default: forward, or the only one]")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write outputs to this file: .pt (a list per call), .npz or .safetensors.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    help="Stop after this many seconds for all calls.",
)
def execute(
    program: Path,
    files: Sequence[Path],
    random: bool,
    seed: int,
    method: str | None,
    out: Path | None,
    timeout: float,
) -> None:
    """Execute a program and print a row for each output.

    The ExecuTorch runtime executes each delegate that it contains; other delegates run on the
    reference model or the emulation of their backend. All of it runs in a separate process.

    A .pt contains a tensor, a list of inputs, or a dict of inputs by name; code in it is not
    executed. An image is uint8 (height, width, channels), and is laid out and scaled to 0..1 as the
    first input requires; a .wav is float32 (channels, samples). Neither is resized or normalized.
    """
    silence_vendors()
    from rich.console import Console

    from harness.cli.programs import program_text
    from harness.execution.any_program import run
    from harness.execution.any_program.delegate_runtimes import require_runtimes
    from harness.model.files import output_files
    from reports import output

    if out is not None:
        output_files.check_suffix(out)
    data = _read(program)
    with _name_file_in_errors(program):
        parsed = run.load_method(data, method)
        executors = require_runtimes(payload.id for payload in parsed.delegates)
    calls = _calls(parsed, program, files, seed if random else None)
    with _name_file_in_errors(program):
        execution = run.run_method(data, parsed, calls, timeout)
    program_text.show_outputs(parsed, execution, executors, Console())
    if out is not None:
        output.write(out, output_files.encode(out, execution.outputs))
        click.echo(out)


def _read(path: Path) -> bytes:
    """Read a program.

    Raises:
        ProgramError: the file is a folder, or does not exist.
    """
    if path.is_dir():
        raise ProgramError(f"{path} is a folder, not a program")
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ProgramError(f"{path}: no such file") from error


@contextmanager
def _name_file_in_errors(path: Path) -> Iterator[None]:
    """Prefix errors about the program with its path."""
    try:
        yield
    except ProgramError as error:
        raise ProgramError(f"{path}: {error}") from error


def _calls(program: Program, path: Path, files: Sequence[Path], seed: int | None) -> list[Inputs]:
    """Return the flat inputs of each call.

    Raises:
        InputError: a file contains no inputs, they do not fit, or none were given.
    """
    import torch

    from harness.errors import ConflictingOptions, InputError
    from harness.execution.any_program import bind_inputs
    from harness.model.files.input_files import read_inputs

    if seed is not None:
        if files:
            raise ConflictingOptions("--inputs and --random exclude each other; give one of them")
        return [bind_inputs.generate_inputs(program, seed)]
    if not files:
        if not program.plan.inputs:
            return [()]
        wanted = ", ".join(bind_inputs.describe_inputs(program))
        raise InputError(f"{path} takes {wanted}; give --inputs FILE, or --random")
    like = [
        torch.empty(spec.sizes, dtype=spec.dtype, device="meta")
        for spec in program.inputs[:1]
        if spec is not None
    ]
    calls = []
    for file in files:
        args, kwargs = read_inputs(file, like)
        try:
            calls.append(bind_inputs.flatten_inputs(program, args, kwargs))
        except InputError as error:
            raise InputError(f"{file}: {error}") from error
    return calls
