"""``conform check``: anybody's own model on every target, from any folder."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from harness.cli import trace_commands
from harness.cli.common import ABOVE_ZERO, SPEED, progress
from harness.errors import UsageError
from harness.record.contradictions import INTEGERS
from harness.record.target import LISTED, split_cell_id

if TYPE_CHECKING:
    from harness.checking.messages import CheckRequest
    from harness.record.run import Run
    from harness.tracing.trace_result import Found

_PROGRAMS = "programs"


@click.command()
@click.argument("source")
@click.option(
    "--inputs",
    "files",
    multiple=True,
    metavar="FILE",
    help="Inputs of one call: .pt .npy .npz .safetensors, images, .wav; may be repeated.",
)
@click.option(
    "--targets", help=f"Comma-separated: {LISTED}; those of a plain run without.", metavar="LIST"
)
@click.option(
    "--dynamic",
    multiple=True,
    metavar="DIM",
    help="A dimension that varies, NAME:DIM[=MIN..MAX]; may be repeated; auto for all that can.",
)
@click.option(
    "--transform-pass",
    "passes",
    multiple=True,
    metavar="MODULE:CLASS",
    help="A pass to run on the edge program, before the target's own; may be repeated.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of weights and noise.")
@click.option(
    "--cell-timeout",
    type=ABOVE_ZERO,
    metavar="SECONDS",
    help="How long a target may take before it is a timeout.",
)
@click.option(
    "--cell-memory",
    type=ABOVE_ZERO,
    metavar="GIB",
    help="How much a target may hold before it is ended; default: 0.9 of what is available.",
)
@click.option(
    "--save",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Make this folder a run, with the programs; conform report, show and diff take it.",
)
@click.option(
    "--html", type=click.Path(path_type=Path), metavar="FILE", help="Write the page here, too."
)
@click.option("--json", "as_json", is_flag=True, help="Print the records, a line each.")
@click.option(
    "--trace",
    is_flag=True,
    help="Show in full how a mismatch was traced to its first wrong node, however long it takes.",
)
@click.option(
    "--past-defects/--no-past-defects",
    default=True,
    show_default=True,
    help="List all known defects of a program and judge the rest; otherwise end at the first.",
)
@SPEED
def check(
    source: str,
    files: Sequence[str],
    targets: str | None,
    dynamic: Sequence[str],
    passes: Sequence[str],
    seed: int,
    cell_timeout: float | None,
    cell_memory: float | None,
    save: Path | None,
    html: Path | None,
    as_json: bool,
    trace: bool,
    past_defects: bool,
    speed: bool,
) -> None:
    """Run a model on every target and hold each against the float64 oracle.

    SOURCE is FILE.py:NAME or package.module:NAME, NAME being a function that returns (module,
    inputs), a class of modules with example_inputs, or a module; or FILE.pt2 of torch.export.save.
    Nothing else is needed: no suite, and no layout of folders.

    Exit code 0 when a target passed and none is red, 1 when one is red, 2 when nothing could be
    judged: no target passed with outputs that tell anything, or the model does not run in eager.
    """
    from rich.console import Console

    from harness.checking.messages import CheckRequest
    from harness.record.folder import check_writable
    from reports import output
    from reports.render import check as table, folder as files_of_run, html as page

    if seed not in INTEGERS:
        raise UsageError(f"--seed of {seed.bit_length()} bits does not fit 64 bits with a sign")
    request = CheckRequest(
        source=source,
        inputs=list(files),
        targets=targets,
        seed=seed,
        dynamic=list(dynamic),
        passes=list(passes),
        programs=None if save is None else str(save / _PROGRAMS),
        speed=speed,
        trace=trace,
        past_defects=past_defects,
    )
    if save is not None:
        check_writable(save)
    limits = Limits(cell_timeout, cell_memory)
    run, notes, traces = _checked(request, limits, save)
    if as_json:
        for cell in run.cells:
            click.echo(cell.to_json())
    else:
        table.render(run, notes, Console())
        for found in traces if trace else ():
            again = _named(request, found.cell)
            trace_commands.show(found, Console(), again)
    if html is not None:
        output.write(html, page.render(run).encode("utf-8", "replace"))
        click.echo(html.resolve(), err=as_json)
    if save is not None:
        click.echo(files_of_run.write(run), err=as_json)
    sys.exit(run.info.exit_status)


class Limits(NamedTuple):
    """What a cell may take; None for no limit of seconds, and for all memory that there is."""

    seconds: float | None
    gibibytes: float | None


def _checked(
    request: CheckRequest, limits: Limits, save: Path | None
) -> tuple[Run, Sequence[str], Sequence[Found]]:
    """Run the check, saying where it is.

    Returns:
        Its record, in a folder where one is named; notes; what tracing found.
    """
    from harness.checking.supervisor import supervise
    from harness.cli.check_progress import Following
    from harness.record.folder import now
    from harness.record.host import environment
    from harness.record.run import Run, RunInfo

    info = RunInfo(
        started=now(),
        seed=request.seed,
        command=_command(request, request.targets, limits),
        selection=request.source,
        environment=environment(Path.cwd()),
        speed=request.speed,
    )
    run = Run(path=save or Path(request.source), info=info, cells=[])
    with progress(f"loading {request.source}") as say:
        following = Following(
            run,
            save,
            lambda cell: shlex.join(_command(request, cell.target, limits)),
            say,
        )
        try:
            for event in supervise(request, timeout=limits.seconds, memory=limits.gibibytes):
                following.see(event)
        finally:
            following.flush()
    status = _exit_status(run)
    if following.writer is not None:
        following.writer.close(exit_status=status)
    else:
        info.exit_status, info.ended, info.complete = status, now(), True
    return run, following.notes, following.traces


def _exit_status(run: Run) -> int:
    """0 where something passed and nothing is red, 1 where something is red, 2 for no evidence."""
    from reports.summary import Summary

    total = Summary.of(run).overall
    if total.red:
        return 1
    return 0 if total.passed else 2


def _command(request: CheckRequest, targets: str | None, limits: Limits) -> list[str]:
    """The command that checks the same model on these targets."""
    options = [
        *(("--inputs", file) for file in request.inputs),
        *([("--targets", targets)] if targets is not None else []),
        *(("--dynamic", text) for text in request.dynamic),
        *(("--transform-pass", spec) for spec in request.passes),
        ("--seed", str(request.seed)),
        *([("--cell-timeout", f"{limits.seconds:g}")] if limits.seconds is not None else []),
        *([("--cell-memory", f"{limits.gibibytes:g}")] if limits.gibibytes is not None else []),
    ]
    words = [word for pair in options for word in pair]
    flags = [] if request.past_defects else ["--no-past-defects"]
    flags += [] if request.speed else ["--no-speed"]
    return ["conform", "check", request.source, *words, *flags]


def _named(request: CheckRequest, cell: str) -> str:
    """How a cell of a check is named to ``conform trace`` and ``conform reduce``."""
    words = [request.source, "--target", str(split_cell_id(cell)[1])]
    words += [word for file in request.inputs[:1] for word in ("--inputs", file)]
    words += ["--seed", str(request.seed)] if request.seed else []
    return shlex.join(words)
