"""``conform run`` and ``conform report``: run cells of the suites, print a run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from harness.cli.common import ABOVE_ZERO, RUNS, SPEED, SUITES, load_run, session_options
from harness.cli.coverage.affected import CHANGE_HELP, select_affected_cells
from harness.cluster.options import OPTIONS as CLUSTER_OPTIONS
from harness.pytest_plugin.options import OPTIONS
from harness.record.target import suite_file

_QUICK = SUITES / "quick"
_PLUGIN = ("-p", "harness.pytest_plugin")
# Values of pytest.ExitCode; importing pytest would slow down --help.
_GREEN, _RED, _NOTHING_SELECTED = 0, 1, 5


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("-k", "keyword", metavar="EXPR", help='Select cells by name: "linear and tosa".')
@click.option("-m", "marks", metavar="EXPR", help='Select cells by tag: "dynamic", "nightly".')
@click.option(
    "-n", "workers", metavar="N", help="Use this many worker processes.  [default: one per core]"
)
@click.option("--quick", is_flag=True, help="Run a few cases on every backend; takes 30 seconds.")
@click.option(
    "--affected-by", "change", metavar="CHANGE",
    help="Run the cells that a change of ExecuTorch can affect, by what each executes: "
    f"{CHANGE_HELP}.",
)  # fmt: skip
@click.option(
    "--recorded", type=click.Path(path_type=Path), metavar="DIR",
    help="With --affected-by: the run of conform coverage record.  [default: the newest in runs/]",
)  # fmt: skip
@click.option(
    "--minutes", type=ABOVE_ZERO, metavar="M",
    help="With --affected-by: leave out cells beyond this much time on one core, longest first.",
)  # fmt: skip
@session_options(*OPTIONS, *CLUSTER_OPTIONS)
@SPEED
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[PATHS | PYTEST OPTIONS]...")
def run(
    keyword: str | None,
    marks: str | None,
    workers: str | None,
    quick: bool,
    change: str | None,
    recorded: Path | None,
    minutes: float | None,
    run_dir: Path | None,
    resume: Path | None,
    cluster: str | None,
    speed: bool,
    rest: Sequence[str],
    **session: Any,
) -> None:
    """Run cells of the suites and write a run folder with a report.

    PATHS are suite folders, modules or node ids (FILE::CASE@TARGET); default: all suites. The
    command starts pytest with the plugin of this package and passes on pytest's own options, such
    as -x, -v, --lf, --durations=10, --require-delegation LIST. The last line of the output is the
    path of the HTML report. Exit code 0 if all cells are green, 1 if a cell is red, 2 if nothing
    was selected or the run was stopped.
    """
    from harness.record.folder import RUN_FILE, name_new_folder

    paths = [text for text in rest if Path(text.partition("::")[0]).exists()]
    is_verbose = any(re.fullmatch("-[a-z]*v+[a-z]*|--verbose", text) for text in rest)
    if quick and paths:
        raise click.UsageError("--quick selects its own cases; omit --quick or the paths")
    if resume is not None and _has_options_besides_resume():
        raise click.UsageError(
            "--resume repeats the selection of its run; give it alone, or with -n, --cluster, "
            "--keys, --allow-mixed-workers"
        )
    if change is None and (recorded or minutes):
        raise click.UsageError("--recorded and --minutes need --affected-by")
    if change is not None:
        if quick or paths:
            raise click.UsageError("--affected-by selects the cells; omit --quick and the paths")
        paths = _select_affected(change, recorded, minutes)
        rest = (*rest, *paths)
    run_dir = resume or run_dir or name_new_folder(RUNS)
    is_new = resume is not None or not (run_dir / RUN_FILE).exists()
    values = {
        "-k": keyword,
        "-m": marks,
        "-n": workers or ("auto" if cluster is None else "0"),
        "--run-dir": run_dir,
        "--cluster": cluster,
        # With -v pytest prints the names of tests itself.
        "--progress": "dots" if is_verbose else "live" if sys.stdout.isatty() else "lines",
    }
    flags = {"--no-speed": not speed}
    for option in (*OPTIONS, *CLUSTER_OPTIONS):
        if option.attribute in session:
            (flags if option.kind == "flag" else values)[option.name] = session[option.attribute]
    options = [
        text for name, value in values.items() if value is not None for text in (name, str(value))
    ]
    options += [name for name, is_set in flags.items() if is_set]
    folders = paths or [str(_QUICK if quick else SUITES)]
    command = [
        sys.executable,
        "-m",
        "pytest",
        *_PLUGIN,
        *([] if is_verbose else ["-q"]),
        # Settings of this project's pyproject.toml, for projects without them.
        *("-p", "no:logging", "-o", f"conform_suites={shlex.join(_suite_folders(folders))}"),
        *("-o", "python_files="),  # collect cells, not the self-tests of suites
        *options,
        *rest,
        *([] if paths else folders),
    ]
    if resume is not None:
        placement = {"-n": workers, "--cluster": cluster, "--keys": session["keys"]}
        progress = ["--progress", str(values["--progress"])]
        arguments = _arguments_of_run(resume, placement)
        # The recorded command of "conform run" has the plugin already.
        plugin = () if _PLUGIN[1] in arguments else _PLUGIN
        command[3:] = [*plugin, *progress, *arguments]
    # PYTHONSAFEPATH: the working directory may have another harness/ or backends/.
    # PYTHONWARNINGS: imports of vendors print some forty warnings per worker.
    environment = {"PYTHONWARNINGS": "ignore", **os.environ, "PYTHONSAFEPATH": "1"}
    status = subprocess.run(command, check=False, env=environment).returncode
    if status == _NOTHING_SELECTED:
        click.echo(
            "conform: no cell matches; list all cells with: pytest suites --collect-only -q\n"
            "Nightly cells are selected by a -m that names nightly: -m 'nightly or not nightly'.",
            err=True,
        )
    page = run_dir / "report.html"
    # Do not print the page of an older run in the same folder.
    if is_new and page.exists():
        click.echo(page.resolve())
    sys.exit(status if status in (_GREEN, _RED) else 2)


def _select_affected(change: str, recorded: Path | None, minutes: float | None) -> list[str]:
    """Return the node ids of the cells that a change can affect; exit if there are none."""
    cells, changes_code = select_affected_cells(change, recorded, minutes)
    if not cells:
        if not changes_code:
            click.echo("nothing to run: the change affects no code that lowers programs", err=True)
        sys.exit(2 if changes_code else 0)
    return [f"{SUITES.parent / suite_file(cell.suite)}::{cell.id}" for cell in cells]


def _has_options_besides_resume() -> bool:
    """Whether an option was given that would change the run to resume."""
    context = click.get_current_context()
    allowed = ("resume", "workers", "cluster", "keys", "allow_mixed_workers")
    return any(
        context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        for name in context.params
        if name not in allowed
    )


# Arguments with a value that are set anew, or dropped, when a run is resumed.
_NOT_REPEATED = ("--run-dir", "--progress", "--resume")


def _arguments_of_run(folder: Path, placement: dict[str, str | None]) -> list[str]:
    """Arguments with which pytest completes a run: its recorded ones, with new places for cells.

    Args:
        folder: folder of the run.
        placement: values of ``-n``, ``--cluster`` and ``--keys``; None for the recorded one.

    Raises:
        RunUnreadable: the folder is not a run.
    """
    from harness.record.folder import load

    recorded = iter(load(folder).info.command[1:])
    uses_cluster = placement["--cluster"] is not None
    # Local workers and a cluster exclude each other, so that either replaces all three options.
    is_moved = uses_cluster or placement["-n"] is not None
    dropped = [*_NOT_REPEATED, *(name for name, value in placement.items() if value or is_moved)]
    kept: list[str] = []
    for text in recorded:
        if text in dropped:
            next(recorded, None)
        else:
            kept.append(text)
    current = {**placement, "-n": placement["-n"] or ("0" if uses_cluster else None)}
    added = [text for name, value in current.items() if value for text in (name, value)]
    return [*kept, *added, "--resume", str(folder)]


def _suite_folders(paths: Sequence[str]) -> list[str]:
    """Outermost packages that contain these paths."""
    found: dict[str, None] = {}
    for text in paths:
        path = Path(text.partition("::")[0]).resolve()
        folder = path if path.is_dir() else path.parent
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
    help="Compare models with this older run; for all other cells use conform diff.",
)
def report(folder: Path | None, against: Path | None) -> None:
    """Print a run; write report.md and report.html.

    Models have their own table: delegates, bytes, constants, time of lowering and execution, first
    diverging node; with --against RUN also the changes since that run. The last line of the output
    is the path of the HTML report.
    """
    from rich.console import Console

    from reports.render import terminal
    from reports.render.folder import write
    from reports.summary import RunSummary

    found = RunSummary.from_run(load_run(folder))
    old = None if against is None else RunSummary.from_run(load_run(against))
    terminal.render(found, Console(), old)
    click.echo(write(found, old))
