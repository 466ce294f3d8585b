"""``conform check``: run a model from any folder on every target."""

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
from harness.record.target import TARGET_LIST_HELP, split_cell_id

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
    help="Call the model with these inputs: .pt .npy .npz .safetensors, images, .wav; repeatable.",
)
@click.option(
    "--calibrate",
    multiple=True,
    metavar="FILE",
    help="Calibrate quantizers with these inputs instead of the judged inputs; repeatable.",
)
@click.option(
    "--targets",
    metavar="LIST",
    help=f"Run on targets, separated by commas: {TARGET_LIST_HELP}.  [default: plain targets]",
)
@click.option(
    "--vary",
    default="",
    metavar="LIST",
    help="Also run each target with these settings of lowering (conform list settings), or with "
    "all: few combinations in which every pair of settings occurs.",
)
@click.option(
    "--dynamic",
    multiple=True,
    metavar="DIM",
    help="Make a dimension dynamic: NAME:DIM[=MIN..MAX], or auto for all possible; repeatable.",
)
@click.option(
    "--transform-pass",
    "passes",
    multiple=True,
    metavar="MODULE:CLASS",
    help="Run this pass on the edge program before the passes of the target; repeatable.",
)
@click.option(
    "--keep-float",
    multiple=True,
    metavar="MODULE",
    help="Let quantizers leave this module of the model in float; repeatable.",
)
@click.option(
    "--quality",
    is_flag=True,
    help="List the tensors whose quantization costs most, worst first. Runs the model for each.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Compute a metric: top1, top5, cosine, rank, edit_distance, iou, cents, perplexity or "
    "FILE.py:NAME, a function or a harness.Metric. NAME>=0.9 or NAME<=3 makes a target beyond it "
    "red. Repeatable.",
)
@click.option(
    "--reach-sqnr",
    type=ABOVE_ZERO,
    metavar="DB",
    help="Find the modules that, left in float, bring the quantized model to this SQNR.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Use this run seed.")
@click.option(
    "--cell-timeout",
    type=ABOVE_ZERO,
    metavar="SECONDS",
    help="End a target after this many seconds.  [default: no limit]",
)
@click.option(
    "--cell-memory",
    type=ABOVE_ZERO,
    metavar="GIB",
    help="End a target that uses more memory.  [default: 90 % of the available memory]",
)
@click.option(
    "--save",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write a run folder with the programs, for conform report, show and diff.",
)
@click.option(
    "--html", type=click.Path(path_type=Path), metavar="FILE", help="Write an HTML report."
)
@click.option("--json", "as_json", is_flag=True, help="Print records as JSON lines.")
@click.option(
    "--trace",
    is_flag=True,
    help="Trace each mismatch to its first diverging node without a time limit, and print it.",
)
@click.option(
    "--past-defects/--no-past-defects",
    default=True,
    show_default=True,
    help="Continue after a known defect of a program and list all of them; or stop at the first.",
)
@SPEED
def check(
    source: str,
    files: Sequence[str],
    calibrate: Sequence[str],
    targets: str | None,
    vary: str,
    dynamic: Sequence[str],
    passes: Sequence[str],
    keep_float: Sequence[str],
    quality: bool,
    metrics: Sequence[str],
    reach_sqnr: float | None,
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
    """Run a model on every target and compare its outputs with the float64 oracle.

    SOURCE is FILE.py:NAME or package.module:NAME, where NAME is a function that returns (module,
    inputs), a module class with example_inputs, or a module; or FILE.pt2 from torch.export.save.
    No suite and no folder layout is needed.

    Exit code 0 if a target passed conclusively and none is red, 1 if one is red, 2 if nothing could
    be judged: all passes are vacuous, or the model does not run in eager.
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
        vary=vary,
        seed=seed,
        dynamic=list(dynamic),
        passes=list(passes),
        calibrate=list(calibrate),
        keep_float=list(keep_float),
        quality=quality,
        reach_sqnr=reach_sqnr,
        metrics=list(metrics),
        programs=None if save is None else str(save / _PROGRAMS),
        speed=speed,
        trace=trace,
        past_defects=past_defects,
    )
    if save is not None:
        check_writable(save)
    limits = Limits(cell_timeout, cell_memory)
    run, notes, traces = _run_check(request, limits, save)
    if as_json:
        for cell in run.cells:
            click.echo(cell.to_json())
    else:
        table.render(run, notes, Console())
        for found in traces if trace else ():
            trace_commands.print_trace(found, Console(), _cell_arguments(request, found.cell))
    if html is not None:
        output.write(html, page.render(run).encode("utf-8", "replace"))
        click.echo(html.resolve(), err=as_json)
    if save is not None:
        click.echo(files_of_run.write(run), err=as_json)
    sys.exit(run.info.exit_status)


class Limits(NamedTuple):
    """Limits of a cell; None for no time limit, and for most of the available memory."""

    seconds: float | None
    gibibytes: float | None


def _run_check(
    request: CheckRequest, limits: Limits, save: Path | None
) -> tuple[Run, Sequence[str], Sequence[Found]]:
    """Run the check and show its progress.

    Returns:
        The run, notes to print, and the results of tracing.
    """
    from harness.checking.supervisor import supervise
    from harness.cli.check_progress import CheckFollower
    from harness.record.folder import format_now
    from harness.record.host import read_environment
    from harness.record.run import Run, RunInfo

    info = RunInfo(
        started=format_now(),
        seed=request.seed,
        command=_command(request, request.targets, limits, request.vary),
        selection=request.source,
        environment=read_environment(Path.cwd()),
        speed=request.speed,
    )
    run = Run(path=save or Path(request.source), info=info, cells=[])
    with progress(f"loading {request.source}") as say:
        follower = CheckFollower(
            run,
            save,
            lambda cell: shlex.join(_command(request, cell.target, limits)),
            say,
        )
        try:
            for event in supervise(request, timeout=limits.seconds, memory=limits.gibibytes):
                follower.handle(event)
        finally:
            follower.flush()
    status = _exit_status(run)
    if follower.writer is not None:
        follower.writer.close(exit_status=status)
    else:
        info.exit_status, info.ended, info.complete = status, format_now(), True
    return run, follower.notes, follower.traces


def _exit_status(run: Run) -> int:
    """0 if a target passed and none is red, 1 if one is red, 2 if nothing was judged."""
    from reports.summary import RunSummary

    total = RunSummary.from_run(run).overall
    if total.red:
        return 1
    return 0 if total.passed else 2


def _command(
    request: CheckRequest, targets: str | None, limits: Limits, vary: str = ""
) -> list[str]:
    """Build the command that checks the same model on these targets and their variations."""
    options = [
        *(("--inputs", file) for file in request.inputs),
        *(("--calibrate", file) for file in request.calibrate),
        *([("--targets", targets)] if targets is not None else []),
        *([("--vary", vary)] if vary else []),
        *(("--dynamic", text) for text in request.dynamic),
        *(("--transform-pass", spec) for spec in request.passes),
        *(("--keep-float", name) for name in request.keep_float),
        *(("--metric", spec) for spec in request.metrics),
        *([("--reach-sqnr", f"{request.reach_sqnr:g}")] if request.reach_sqnr is not None else []),
        ("--seed", str(request.seed)),
        *([("--cell-timeout", f"{limits.seconds:g}")] if limits.seconds is not None else []),
        *([("--cell-memory", f"{limits.gibibytes:g}")] if limits.gibibytes is not None else []),
    ]
    words = [word for pair in options for word in pair]
    flags = [] if request.past_defects else ["--no-past-defects"]
    flags += [] if request.speed else ["--no-speed"]
    flags += ["--quality"] if request.quality else []
    return ["conform", "check", request.source, *words, *flags]


def _cell_arguments(request: CheckRequest, cell: str) -> str:
    """Arguments of ``conform trace`` and ``conform reduce`` that select a cell of a check."""
    words = [request.source, "--target", str(split_cell_id(cell)[1])]
    words += [word for file in request.inputs[:1] for word in ("--inputs", file)]
    words += [word for file in request.calibrate for word in ("--calibrate", file)]
    words += [word for name in request.keep_float for word in ("--keep-float", name)]
    words += ["--seed", str(request.seed)] if request.seed else []
    return shlex.join(words)
