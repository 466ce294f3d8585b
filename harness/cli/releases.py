"""``conform releases``: run, compare and bisect releases of ExecuTorch."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TextIO

import click

from harness.cli.common import RUNS
from harness.errors import UsageError
from reports.commands.common import read_run, style_option, write_text

_WHEELS = click.option(
    "--wheels",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="FOLDER",
    help="Use the wheels in this folder.  [default: the package index]",
)
_PASS_OPTIONS_ON = {"ignore_unknown_options": True}


@click.group()
def releases() -> None:
    """Run the suites on several releases of ExecuTorch and compare the results.

    A release is a version such as 1.4.1, a wheel, or "here" for the installed version. Each release
    has its own environment, which shares all packages except ExecuTorch with this one.
    Environments are kept; conform cache prune removes them.
    """


@releases.command("run", context_settings=_PASS_OPTIONS_ON)
@click.argument("first")
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[RELEASES | RUN OPTIONS]...")
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path),
    help="Write the runs to this folder.  [default: runs/TIME]",
)
@_WHEELS
def run(first: str, rest: tuple[str, ...], run_dir: Path | None, wheels: Path | None) -> None:
    """Run the same cells with the same seeds on several releases, oldest first, and compare them.

    conform releases run 1.4.1 1.5.1 -k softmax --targets tosa

    Arguments after the releases are paths and options of conform run. The folder contains one run
    folder per release, and releases.md and releases.html, which compare them. Exit code 0 if all
    runs are green, 1 if one is red.
    """
    from harness.extras.releases import available, run_releases
    from harness.record.folder import name_new_folder

    names, options = _split((first, *rest))
    chosen = [available.parse_release(name, wheels) for name in names]
    if len(chosen) < 2:
        raise UsageError("name two releases or more, such as: conform releases run 1.4.1 here")
    folder = run_dir or name_new_folder(RUNS)
    status = run_releases.run_on_releases(chosen, folder, options, click.echo)
    _compare([folder], "terminal", folder)
    sys.exit(status)


@releases.command("exec")
@click.argument("first")
@click.argument("rest", nargs=-1, required=True, metavar="[RELEASES] SCRIPTS...")
@_WHEELS
@click.option("--verbose", "-v", is_flag=True, help="Print the output of the scripts.")
def execute(first: str, rest: tuple[str, ...], wheels: Path | None, verbose: bool) -> None:
    """Run Python scripts on several releases and print their exit codes.

    conform releases exec 1.4.1 1.5.0 here docs/findings/*.py

    Scripts in docs/findings exit with 1 if the defect shows, 0 if it is fixed and 2 if it cannot be
    tried; scripts of conform repro --script with 1 if the cell is wrong. Exit code 0 if all scripts
    ended by themselves, 2 if one was killed or took over ten minutes.
    """
    from rich.console import Console

    from harness.extras.releases import available, scripts
    from reports.console import new_table, safe_text

    names, files = _split((first, *rest))
    if not names or not files:
        raise UsageError(
            "name one or more releases, then scripts, such as: "
            "conform releases exec 1.4.1 here docs/findings/xnnpack_exp_nan.py"
        )
    chosen = [available.parse_release(name, wheels) for name in names]
    table = new_table("script", *names)
    ended = True
    for path, found in scripts.run_scripts(chosen, [Path(file) for file in files], click.echo):
        table.add_row(*map(safe_text, (path.name, *(each.status_text for each in found))))
        ended = ended and all(each.status >= 0 for each in found)
        if verbose:
            for name, each in zip(names, found, strict=True):
                click.echo(f"--- {path.name} on {name}: {each.status_text}\n{each.output.rstrip()}")
    Console().print(table)
    sys.exit(0 if ended else 2)


@releases.command("compare")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@style_option("change")
@click.option(
    "--write",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write releases.md and releases.html to this folder.",
)
def compare(runs: tuple[Path, ...], style: str, write: Path | None) -> None:
    """Compare each release with the previous one, one row per backend.

    RUNS are the folder of conform releases run, or run folders, oldest release first. The columns
    are newly passing and newly failing cells, numerics, delegation, bytes and lowering time.
    """
    _compare(list(runs), style, write)


@releases.command("list")
@_WHEELS
def listing(wheels: Path | None) -> None:
    """List the releases for this Python, oldest first, and the kept environments."""
    from harness.extras.releases import available, environment
    from harness.vendors.versions import installed_version, oldest_supported

    found = (
        available.list_index_versions()
        if wheels is None
        else [release.version for release in available.list_wheels(wheels)]
    )
    kept = environment.list_environments()
    for version in found:
        notes = ["installed here"] if version == installed_version() else []
        notes += ["environment kept"] if version in kept else []
        click.echo(f"{version:<12} {', '.join(notes)}".rstrip())
    click.echo(
        f"tested from {oldest_supported()} on; environments: {environment.environments_folder()}"
    )


@releases.command("affected")
@click.argument("files", type=click.File(), default="-")
def affected(files: TextIO) -> None:
    """Print the targets that a change of ExecuTorch can affect, in the form of --targets.

    git diff --name-only main... | conform releases affected

    FILES contains one path per line, relative to ExecuTorch's repository; "-" reads standard input.
    """
    from harness.extras.releases.affected import find_affected_backends

    found = find_affected_backends(files)
    if not found:
        click.echo("these files affect no cell", err=True)
        return
    click.echo(",".join(found))


@releases.command(hidden=True, deprecated="Use: conform cache prune releases --clear")
def forget() -> None:
    """Delete the kept environments."""
    from harness.cache_folders import prune

    click.echo(f"{len(prune('releases', max_size=0.0, max_age=None))} environments deleted")


@releases.command("bisect")
@click.argument("cell")
@click.option("--good", required=True, metavar="RELEASE", help="Use this as the older release.")
@click.option("--bad", required=True, metavar="RELEASE", help="Use this as the newer release.")
@click.option(
    "--by",
    type=click.Choice(("outcome", "delegation", "bytes")),
    default="outcome",
    show_default=True,
    help="Find the release that changed this.",
)
@_WHEELS
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path),
    help="Write the runs to this folder.  [default: runs/TIME]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Use this run seed.")
def bisect(
    cell: str,
    good: str,
    bad: str,
    by: str,
    wheels: Path | None,
    run_dir: Path | None,
    seed: int,
) -> None:
    """Find the release that changed CELL, between two releases with different results.

    conform releases bisect linear/bias@metal:fp32 --good 1.4.1 --bad 1.5.1

    The change may be for better or worse. Releases are those in the package index for this Python,
    or the wheels in a folder, such as nightly builds. Exit code 0 if the release was found, 2 if
    the two results do not differ or one release cannot be tried.
    """
    from rich.console import Console

    from harness.extras.releases import available, bisect
    from harness.record.folder import name_new_folder
    from harness.record.target import split_cell_id
    from reports.console import new_table, safe_text

    split_cell_id(cell)
    ends = [available.parse_release(name, wheels) for name in (good, bad)]
    between = available.list_between(ends[0], ends[1], wheels)
    click.echo(f"{cell}: {len(between)} releases, from {good} to {bad}")
    folder = run_dir or name_new_folder(RUNS)
    options = ["--seed", str(seed)]
    found = bisect.bisect(cell, between, folder, by=by, options=options, on_progress=click.echo)
    table = new_table("release", by, "problem", "record")
    for one in found.tried:
        cells = (one.release, one.value, one.error[:200], str(one.folder))
        table.add_row(*map(safe_text, cells))
    console = Console()
    console.print(table)
    before, after = found.before, found.after
    verdict = f"changed in {after.release}"
    if found.between:
        verdict += f", or in {' or '.join(found.between)}, which could not be run"
    verdict += f": {before.value} in {before.release}, {after.value} in {after.release}"
    console.print(safe_text(verdict, "bold"))


def _split(words: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Split words into leading releases and the rest."""
    from packaging.version import InvalidVersion, Version

    from harness.extras.releases.available import HERE

    for number, word in enumerate(words):
        if word == HERE or word.endswith(".whl"):
            continue
        try:
            Version(word)
        except InvalidVersion:
            return list(words[:number]), list(words[number:])
    return list(words), []


def _expand_runs(folders: list[Path]) -> tuple[list[Path], str]:
    """Return run folders and the command that made them; expand a folder of releases run."""
    from harness.extras.releases.run_releases import INDEX_FILE, read_index

    if len(folders) != 1 or not (folders[0] / INDEX_FILE).exists():
        return folders, ""
    index = read_index(folders[0])
    names = [ran.release for ran in index.releases]
    made = shlex.join(["conform", "releases", "run", *names, *index.options])
    return [folders[0] / ran.folder for ran in index.releases], made


def _compare(folders: list[Path], style: str, write: Path | None) -> None:
    from reports.comparison import releases as comparison
    from reports.comparison.releases import markdown, page, plain, terminal

    folders, made = _expand_runs(folders)
    found = comparison.compare_releases([read_run(folder) for folder in folders])
    if style == "json":
        click.echo(plain.render(found))
    elif style == "markdown":
        click.echo(markdown.render(found, made=made), nl=False)
    else:
        terminal.render(found)
    if write is not None:
        write.mkdir(parents=True, exist_ok=True)
        write_text(write / "releases.md", markdown.render(found, made=made))
        write_text(write / "releases.html", page.render(found))
        if style == "terminal":
            click.echo((write / "releases.html").resolve())
