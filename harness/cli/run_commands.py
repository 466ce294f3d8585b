"""``conform run`` and ``conform report``: cells of the suites, and their record."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from harness.cli.common import ABOVE_ZERO, RUNS, SPEED, SUITES, load_run
from harness.record.target import LISTED

_QUICK = SUITES / "quick"
_PLUGIN = ("-p", "harness.pytest_plugin")
# pytest.ExitCode, without importing pytest for --help.
_GREEN, _RED, _NOTHING_SELECTED = 0, 1, 5


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--targets", help=f"Comma-separated: {LISTED}; those of a plain run without.", metavar="LIST"
)
@click.option("-k", "keyword", help='Cells to select, such as "linear and tosa".', metavar="EXPR")
@click.option("-m", "marks", help='Tags to select, such as "dynamic".', metavar="EXPR")
@click.option("-n", "workers", help="Worker processes; default: one a core.", metavar="N")
@click.option("--seed", type=int, default=0, show_default=True, help="Run seed.")
@click.option("--run-dir", type=click.Path(path_type=Path), help="Folder of the record.")
@click.option(
    "--cell-timeout",
    type=ABOVE_ZERO,
    metavar="SECONDS",
    help="Seconds after which a cell is a timeout; default: 300. Not with -n 0.",
)
@click.option(
    "--cell-memory",
    type=ABOVE_ZERO,
    metavar="GIB",
    help="GiB above its worker's base after which a cell is ended; default: 3. Not with -n 0.",
)
@click.option(
    "--compare-runtimes", is_flag=True, help="Run natively and emulated where both are possible."
)
@click.option(
    "--lower-only",
    is_flag=True,
    help="Stop at the serialized programs: nothing is executed, cells end as lowered.",
)
@click.option(
    "--keep",
    type=click.Choice(("none", "red", "all")),
    help="Keep program, inputs, actual and expected outputs and a BundledProgram of red cells, or "
    "of all, in the run folder; default: none.",
)
@click.option(
    "--quick", is_flag=True, help="Only a few cases that touch every backend: half a minute."
)
@click.option(
    "--incremental",
    is_flag=True,
    help="Take results of cells of which nothing has changed that they hang on, and keep those of "
    "cells that run (docs/incremental.md).",
)
@click.option(
    "--results", metavar="URL", help="Where --incremental keeps results: a folder, or s3://, gs://."
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="RUN",
    help="Complete a run that was stopped, in its folder; alone, it takes its own arguments.",
)
@click.option(
    "--changed-since",
    metavar="REV",
    help="Only the cells that what differs from this revision of git can affect.",
)
@click.option(
    "--cluster", metavar="ADDRESS", help="Run on the workers of a farm (conform cluster --help)."
)
@click.option("--keys", metavar="FOLDER", help="Keys of the farm, beyond loopback.")
@click.option("--mixed", is_flag=True, help="Take workers whose packages or checkout differ.")
@SPEED
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[PATHS | PYTEST OPTIONS]...")
def run(
    targets: str | None,
    keyword: str | None,
    marks: str | None,
    workers: str | None,
    seed: int,
    run_dir: Path | None,
    cell_timeout: float | None,
    cell_memory: float | None,
    compare_runtimes: bool,
    lower_only: bool,
    keep: str | None,
    quick: bool,
    incremental: bool,
    results: str | None,
    resume: Path | None,
    changed_since: str | None,
    cluster: str | None,
    keys: str | None,
    mixed: bool,
    speed: bool,
    rest: Sequence[str],
) -> None:
    """Run cells of the suites and leave a run folder with a report.

    PATHS are suite folders, modules or node ids (FILE::CASE@TARGET); default: all suites. This is
    pytest with the options of the plugin, and takes pytest's own as well: -x, -v, --lf,
    --durations=10, --require-delegation LIST. The last line printed is the path of the HTML page.
    Exit code 0 when all is green, 1 when a cell is red, 2 when nothing was selected or the run did
    not end by itself.
    """
    from harness.record.folder import RUN_FILE, new_folder

    paths = [text for text in rest if Path(text.partition("::")[0]).exists()]
    wordy = any(re.fullmatch("-[a-z]*v+[a-z]*|--verbose", text) for text in rest)
    if quick and paths:
        raise click.UsageError("--quick has cases of its own; leave out --quick, or the paths")
    if resume is not None and _beside_resume():
        raise click.UsageError(
            "--resume selects what its run selected; give it alone, or with -n, --cluster, --keys"
        )
    run_dir = resume or run_dir or new_folder(RUNS)
    is_new = resume is not None or not (run_dir / RUN_FILE).exists()
    chosen = {
        "--targets": targets,
        "-k": keyword,
        "-m": marks,
        "-n": workers or ("auto" if cluster is None else "0"),
        "--seed": str(seed),
        "--cell-timeout": None if cell_timeout is None else str(cell_timeout),
        "--cell-memory": None if cell_memory is None else str(cell_memory),
        "--run-dir": str(run_dir),
        "--keep": keep,
        "--results": results,
        "--changed-since": changed_since,
        "--cluster": cluster,
        "--keys": keys,
        # Asked for names of tests, pytest prints them itself.
        "--progress": "dots" if wordy else "live" if sys.stdout.isatty() else "lines",
    }
    options = [text for key, value in chosen.items() if value is not None for text in (key, value)]
    flags = {
        "--compare-runtimes": compare_runtimes,
        "--lower-only": lower_only,
        "--no-speed": not speed,
        "--mixed": mixed,
        "--incremental": incremental,
    }
    options += [name for name, is_set in flags.items() if is_set]
    folders = paths or [str(_QUICK if quick else SUITES)]
    command = [
        sys.executable,
        "-m",
        "pytest",
        *_PLUGIN,
        *([] if wordy else ["-q"]),
        # What this project's pytest.ini says, for those that have none.
        *("-p", "no:logging", "-o", f"conform_suites={shlex.join(_suite_folders(folders))}"),
        *("-o", "python_files="),  # cells are asked for, not the tests of suites
        *options,
        *rest,
        *([] if paths else folders),
    ]
    if resume is not None:
        where = {"-n": workers, "--cluster": cluster, "--keys": keys}
        progress = ["--progress", str(chosen["--progress"])]
        as_it_was = _as_it_was(resume, where)
        # A run that conform began names the plugin already.
        plugin = () if _PLUGIN[1] in as_it_was else _PLUGIN
        command[3:] = [*plugin, *progress, *as_it_was]
    # A checkout may have a harness/ or a backends/ of its own in the working directory.
    # What vendors' imports warn of, some forty lines a worker, is nobody's here to mend.
    ours = {"PYTHONWARNINGS": "ignore", **os.environ, "PYTHONSAFEPATH": "1"}
    status = subprocess.run(command, check=False, env=ours).returncode
    if status == _NOTHING_SELECTED:
        click.echo(
            "conform: no cell matches; see what there is with: pytest suites --collect-only -q\n"
            "What is left to the night takes a -m that names nightly: -m 'nightly or not nightly'.",
            err=True,
        )
    page = run_dir / "report.html"
    # An older run's page, or none on a full disk, is not this run's.
    if is_new and page.exists():
        click.echo(page.resolve())
    sys.exit(status if status in (_GREEN, _RED) else 2)


def _beside_resume() -> bool:
    """Whether something was given that would make the run that is resumed another."""
    context = click.get_current_context()
    anywhere = ("resume", "workers", "cluster", "keys", "mixed")
    return any(
        context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        for name in context.params
        if name not in anywhere
    )


# Arguments with a value that a run which is taken up again has anew, or has not at all.
_ANEW = ("--run-dir", "--progress", "--resume")


def _as_it_was(folder: Path, where: dict[str, str | None]) -> list[str]:
    """What pytest is given to complete a run: what it was given, but for where its cells run.

    Args:
        folder: the run's.
        where: options that say it, those that are given now; None for as before.

    Raises:
        RunUnreadable: it is no run.
    """
    from harness.record.folder import load

    given = iter(load(folder).info.command[1:])
    elsewhere = where["--cluster"] is not None
    # With workers of its own it needs no farm, and with a farm none of these.
    moved = elsewhere or where["-n"] is not None
    left = [*_ANEW, *(name for name, value in where.items() if value or moved)]
    kept: list[str] = []
    for text in given:
        if text in left:
            next(given, None)
        else:
            kept.append(text)
    now = {**where, "-n": where["-n"] or ("0" if elsewhere else None)}
    added = [text for name, value in now.items() if value for text in (name, value)]
    return [*kept, *added, "--resume", str(folder)]


def _suite_folders(paths: Sequence[str]) -> list[str]:
    """The folders below the root of the tests that hold what is run: the outermost packages."""
    found: dict[str, None] = {}
    for text in paths:
        place = Path(text.partition("::")[0]).resolve()
        folder = place if place.is_dir() else place.parent
        while (folder / "__init__.py").exists() and (folder.parent / "__init__.py").exists():
            folder = folder.parent
        found[str(folder)] = None
    return list(found)


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Run folder that the models are held against; what else changed: conform diff.",
)
def report(folder: Path | None, against: Path | None) -> None:
    """Print a run and write report.md and report.html into its folder.

    Models have a table of their own: delegates, bytes and constants, what lowering and executing
    took, the first wrong node; with --against RUN what was otherwise in that run. The last line
    printed is the path of the HTML page.
    """
    from rich.console import Console

    from reports.render import terminal
    from reports.render.folder import write
    from reports.summary import Summary

    found = Summary.of(load_run(folder))
    old = None if against is None else Summary.of(load_run(against))
    terminal.render(found, Console(), old)
    click.echo(write(found, old))
