"""Historic defects: take back what upstream fixed, one commit at a time, and see whether cells
notice.

    python -m benchmarks.verdicts.historic ../executorch --recorded runs/recorded --since 2026-01-01

The first argument is a clone of ExecuTorch's repository with its history. A commit counts as a fix
if its subject says so. It is undone in a copy of the installed package, where it still applies, and
the cells run that execute what it changes (docs/coverage.md). A fix that no cell notices may be
harmless here: read it before you call it missed.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from harness.coverage.vendor_code import list_vendor_files
from harness.errors import UsageError
from harness.record.folder import load

_FIX = re.compile(
    r"\b(fix\w*|bugs?|wrong\w*|incorrect\w*|crash\w*|correct\w*|reject\w*|prevent\w*|preserve\w*"
    r"|avoid\w*|missing|handle\w*|properly)\b",
    re.IGNORECASE,
)
_PACKAGE = "executorch"


@dataclass(frozen=True)
class Fix:
    """A commit whose subject says that it fixes something.

    Attributes:
        commit: its hash.
        date: of its author, ``YYYY-MM-DD``.
        subject: first line of its message.
        files: the files of the installed lowering code that it changes, from the repository's root.
    """

    commit: str
    date: str
    subject: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What happens without a fix.

    Attributes:
        fix: the fix that was undone.
        noticed: ``red``: a cell is red that was not in the recorded run. ``green``: none is.
            ``no cell``: no recorded cell executes what the fix changes.
        cells: number of cells that ran.
        red: ids of the red ones.
    """

    fix: Fix
    noticed: str
    cells: int = 0
    red: tuple[str, ...] = ()


def list_fixes(repository: Path, since: str) -> Iterator[Fix]:
    """Yield the fixes of a repository that change installed lowering code, newest first.

    Args:
        repository: a clone of ExecuTorch's repository.
        since: a date, as git takes it.

    Raises:
        UsageError: the folder is no repository.
    """
    names = {file.name for file in list_vendor_files()}
    log = _git(repository, "log", f"--since={since}", "--no-merges", "--format=%H%x09%as%x09%s")
    for line in log.splitlines():
        commit, date, subject = line.split("\t", 2)
        if not _FIX.search(subject):
            continue
        paths = _git(repository, "show", "--format=", "--name-only", commit).splitlines()
        files = tuple(path for path in paths if f"{_PACKAGE}/{path}" in names)
        if files:
            yield Fix(commit, date, subject, files)


def undo(patch: str, files: Sequence[str], folder: Path) -> bool:
    """Copy the installed package into a folder and undo a patch there.

    Returns:
        Whether the patch could be undone: the installed code contains it.
    """
    import executorch

    source = Path(next(iter(executorch.__path__)))
    shutil.copytree(source, folder / _PACKAGE, copy_function=_link)
    for name in files:
        copied = folder / _PACKAGE / name
        content = copied.read_bytes()
        copied.unlink()  # the other link is the installed file
        copied.write_bytes(content)
    command = ["git", "apply", "-R", "-p1", f"--directory={_PACKAGE}", "--unsafe-paths", "-"]
    done = subprocess.run(
        command, cwd=folder, input=patch, text=True, capture_output=True, check=False
    )
    return done.returncode == 0


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def try_without(
    fix: Fix, patch: str, recorded: Path, minutes: float, workers: str
) -> Outcome | None:
    """Run the cells that a fix can affect without it; None if it cannot be undone."""
    with tempfile.TemporaryDirectory(prefix="conform-") as made:
        folder = Path(made)
        if not undo(patch, fix.files, folder):
            return None
        affected = _conform(
            "coverage", "affected", "-", str(recorded), "--minutes", f"{minutes:g}", given=patch
        )
        if affected.returncode == 2:
            raise UsageError(affected.stderr.strip())
        cells = affected.stdout.split("\n")[:-1]
        if not cells:
            return Outcome(fix, "no cell")
        run = folder / "run"
        _conform("run", *cells, "-n", workers, "--run-dir", str(run), path=folder)
        ran = load(run).cells
    was_red = _list_red(recorded)
    red = tuple(cell.id for cell in ran if cell.status.is_red and cell.id not in was_red)
    return Outcome(fix, "red" if red else "green", len(ran), red)


@functools.cache
def _list_red(recorded: Path) -> frozenset[str]:
    return frozenset(cell.id for cell in load(recorded).cells if cell.status.is_red)


def _conform(
    *arguments: str, given: str = "", path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command of ``conform``, with a folder first on Python's path."""
    paths = [str(path)] if path else []
    paths += filter(None, [os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "harness.cli", *arguments]
    return subprocess.run(
        command, input=given, text=True, capture_output=True, env=environment, check=False
    )


def _git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(repository), *arguments],
        text=True, errors="replace", capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise UsageError(f"git {arguments[0]} in {repository}: {done.stderr.strip()}")
    return done.stdout


@click.command()
@click.argument("repository", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--recorded", type=click.Path(path_type=Path, exists=True), required=True, metavar="RUN",
    help="Run folder of conform coverage record.",
)  # fmt: skip
@click.option("--since", default="2026-01-01", show_default=True, help="Take commits since then.")
@click.option(
    "--commit", "only", multiple=True, metavar="HASH", help="Take this commit only; repeatable."
)
@click.option(
    "--minutes", default=2.0, show_default=True, help="Processor time of the cells of a fix."
)
@click.option("-n", "workers", default="auto", help="Worker processes.  [default: one per core]")
@click.option(
    "--json", "out", type=click.Path(path_type=Path), help="Write the outcomes to a file."
)
def main(
    repository: Path,
    recorded: Path,
    since: str,
    only: tuple[str, ...],
    minutes: float,
    workers: str,
    out: Path | None,
) -> None:
    """Undo fixes of ExecuTorch one at a time, and count the fixes that cells notice."""
    console = Console()
    outcomes: list[Outcome] = []
    others = 0
    for fix in list_fixes(repository, since):
        if only and not fix.commit.startswith(only):
            continue
        patch = _git(repository, "show", "--format=", "--no-color", fix.commit, "--", *fix.files)
        outcome = try_without(fix, patch, recorded, minutes, workers)
        if outcome is None:
            others += 1
            continue
        outcomes.append(outcome)
        first = f": {outcome.red[0]}" if outcome.red else ""
        line = f"{fix.date} {fix.commit[:10]} {outcome.noticed} of {outcome.cells} cells{first}"
        console.print(line, markup=False, highlight=False)
        if out is not None:
            out.write_text(json.dumps([asdict(each) for each in outcomes], indent=1) + "\n")
    table = Table(title=f"{len(outcomes)} fixes undone; {others} are not in the installed code")
    for heading in ("noticed", "fixes"):
        table.add_column(heading)
    for noticed, number in Counter(each.noticed for each in outcomes).most_common():
        table.add_row(noticed, str(number))
    console.print(table)


if __name__ == "__main__":
    main()
