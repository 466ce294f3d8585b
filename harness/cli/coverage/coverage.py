"""``conform coverage``: what cells execute of the vendors' lowering code, and what none does."""

from __future__ import annotations

import difflib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from harness.cli.common import ABOVE_ZERO, RUNS, load_run, run_folder, silence_vendors
from harness.cli.coverage.affected import find_recorded_run, select_affected_cells
from harness.errors import UsageError
from harness.record.target import suite_file

_RUN = click.argument("folder", metavar="[RUN]", required=False, type=click.Path(path_type=Path))


@click.group(invoke_without_command=True)
@click.pass_context
def coverage(context: click.Context) -> None:
    """Find out which cells execute which lowering code, and what no cell executes.

    The code is that of ExecuTorch's backends, exir and torchao's pt2e. conform coverage record
    runs cells and records them; the other commands read the recording. Without a command: show.
    See docs/coverage.md.
    """
    if context.invoked_subcommand is None:
        context.invoke(show)


@coverage.command(
    context_settings={"ignore_unknown_options": True}, short_help="Run cells and record each."
)
@click.option(
    "--run-dir", type=click.Path(path_type=Path), metavar="DIR",
    help="Write the run to this folder.  [default: runs/TIME]",
)  # fmt: skip
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF conform run]...")
def record(run_dir: Path | None, rest: Sequence[str]) -> None:
    """Run cells, and record which lines each executes.

    Takes the options and paths of conform run, such as -k, --targets and suites/ops; default: the
    cells of a plain run. Writes coverage.db beside the records, then prints a summary. Takes two to
    three times as long as conform run, because vendors' code is not skipped where its result is
    known. Exit codes are those of conform run.
    """
    from harness.record.folder import name_new_folder

    folder = run_dir or name_new_folder(RUNS)
    command = [sys.executable, "-m", "harness.cli", "run", "--coverage", "--run-dir", str(folder)]
    status = subprocess.run([*command, *rest], check=False).returncode
    if status in (0, 1):
        _show(folder, area="", pattern="", limit=10)
    sys.exit(status)


@coverage.command(short_help="Print what is executed, by area and file.")
@_RUN
@click.option("--area", default="", metavar="NAME", help="Show one area: xnnpack, tosa, exir, ...")
@click.option(
    "--files", "pattern", default="", metavar="PATTERN",
    help="Show the functions of files whose path contains this, or matches this glob.",
)  # fmt: skip
@click.option(
    "--limit", type=click.IntRange(min=0), default=20, show_default=True, metavar="N",
    help="Show at most N files; 0 for all.",
)  # fmt: skip
@click.option(
    "--json", "out", type=click.Path(path_type=Path, allow_dash=True), metavar="FILE",
    help="Write the whole summary to a file (- for stdout) instead.",
)  # fmt: skip
def show(folder: Path | None, area: str, pattern: str, limit: int, out: Path | None) -> None:
    """Print what cells execute of the lowering code: by area, and the files with most missing.

    RUN is the folder of a recorded run; default: the newest one in runs/.
    """
    folder = folder or find_recorded_run()
    if out is None:
        _show(folder, area=area, pattern=pattern, limit=limit)
        return
    from harness.coverage.summary import SUMMARY_FILE
    from harness.coverage.unexecuted import load_summary

    load_summary(folder)  # writes the file
    content = (folder / SUMMARY_FILE).read_bytes()
    with click.open_file(str(out), "wb") as file:
        file.write(content)


@coverage.command(short_help="List the cells that execute a place.")
@click.argument("place", metavar="PLACE")
@_RUN
def cells(place: str, folder: Path | None) -> None:
    """List the cells that execute a place, with their outcome.

    PLACE is FILE.py, FILE.py:LINE, FILE.py:LINE-LINE or FILE.py::FUNCTION; the file may lack its
    first folders: op_gelu.py::define_node. Exit code 0 if there are cells, 1 if there is none.
    """
    from harness.coverage.coverage_map import MAP_FILE, CoverageMap
    from harness.coverage.lookup import CellIndex, parse_place
    from harness.coverage.unexecuted import classify, load_summary
    from harness.record.folder import load
    from reports.coverage.views import LABELS

    folder = folder or find_recorded_run()
    parsed = parse_place(place, load_summary(folder))
    with CoverageMap(folder / MAP_FILE) as recorded:
        found = sorted(CellIndex(recorded).find_cells([parsed]))
    kinds = {cell.id: LABELS[classify(cell)] for cell in load(folder).cells}
    for cell in found:
        click.echo(f"{kinds.get(cell, 'no record'):<12}  {cell}")
    click.echo(f"{len(found):,} cells execute {parsed}", err=True)
    sys.exit(0 if found else 1)


@coverage.command(short_help="List the cells that a patch can affect.")
@click.argument("change", metavar="CHANGE")
@_RUN
@click.option(
    "--minutes", type=ABOVE_ZERO, metavar="M",
    help="Leave out cells beyond this much time on one core, the longest first.",
)  # fmt: skip
def affected(change: str, folder: Path | None, minutes: float | None) -> None:
    """List the cells that a change of ExecuTorch can affect; conform run --affected-by runs them.

    CHANGE is a unified diff, - for stdin, REV..REV of the git repository here, or files.py,... that
    count as changed as a whole. Functions are compared with the installed code, so that changes of
    comments affect nothing. The first cells execute together all that any cell executes of the
    patch; then the shortest come first. What the patch changes is printed on stderr. Exit code 0 if
    there are cells, 1 if there is none.
    """
    shown, _ = select_affected_cells(change, folder, minutes)
    for cell in shown:
        click.echo(f"{suite_file(cell.suite)}::{cell.id}")
    sys.exit(0 if shown else 1)


@coverage.command(short_help="Print what backends claim to take, and what cells showed.")
@run_folder
@click.option("--target", default="", metavar="T", help="Show one target, or those of one backend.")
@click.option(
    "--json", "data", type=click.Path(path_type=Path, allow_dash=True), metavar="FILE",
    help="Write all operators as data to a file (- for stdout) instead.",
)  # fmt: skip
@click.option(
    "--write", "page", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write a page in Markdown instead.",
)  # fmt: skip
@click.option(
    "--check", "written", type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE", help="Print lines of a written page that are out of date; exit code 1 if any.",
)  # fmt: skip
def support(
    folder: Path | None, target: str, data: Path | None, page: Path | None, written: Path | None
) -> None:
    """Print which operators backends claim to take, and what the cells of a run showed.

    RUN is a run folder; default: the newest one in runs/. Claims are those of the vendors' own
    registries, which the run has recorded. The operators are printed with --target, of one target
    or backend.
    """
    import msgspec
    from rich.console import Console

    from harness.coverage.claims import read_claims
    from harness.record.folder import write_atomically
    from reports.support import markdown, terminal, views

    run = load_run(folder)
    claims = read_claims(run.path)
    if views.list_unclaimed_targets(run, claims):
        from harness.coverage.vendor_claims import complete_claims

        silence_vendors()
        for remark in complete_claims(run, claims):
            click.echo(f"claims are not known: {remark}", err=True)
        claims = read_claims(run.path)
    tables = views.build_tables(run, claims, target)
    if not tables:
        raise UsageError(f"no cell of {run.path} was lowered for {target or 'any target'}")
    if data is not None:
        content = msgspec.json.format(msgspec.json.encode(views.describe_json(tables)), indent=1)
        with click.open_file(str(data), "wb") as file:
            file.write(content + b"\n")
    elif page is not None:
        write_atomically(page, markdown.render(tables).encode())
    elif written is not None:
        before = written.read_text(encoding="utf-8").splitlines()
        after = markdown.render(tables).splitlines()
        lines = list(
            difflib.unified_diff(before, after, str(written), str(run.path), "", "", 0, "")
        )
        click.echo("\n".join(lines), nl=bool(lines))
        sys.exit(1 if lines else 0)
    else:
        terminal.render(tables, Console(), full=bool(target))


def _show(folder: Path, *, area: str, pattern: str, limit: int) -> None:
    from rich.console import Console

    from harness.coverage.unexecuted import load_summary
    from reports.coverage import terminal

    summary = load_summary(folder)
    terminal.render(summary, Console(), area=area, pattern=pattern, limit=limit)
