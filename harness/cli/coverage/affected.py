"""Select the recorded cells that a change of ExecuTorch can affect, for several commands."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.common import RUNS
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.coverage.affected import AffectedCells
    from harness.record.cell import Cell

CHANGE_HELP = "a unified diff, - for stdin, REV..REV of the git repository here, or files.py,..."


def find_recorded_run() -> Path:
    """Return the newest run with a map or a summary.

    Raises:
        ConformError: there is none.
    """
    from harness.coverage.coverage_map import MAP_FILE, MapUnreadable
    from harness.coverage.summary import SUMMARY_FILE

    found = [path for name in (MAP_FILE, SUMMARY_FILE) for path in RUNS.glob(f"*/{name}")]
    if not found:
        raise MapUnreadable(f"no run in {RUNS} has a {MAP_FILE}; make one: conform coverage record")
    return max(found, key=lambda path: path.stat().st_mtime).parent


def select_affected_cells(
    change: str, folder: Path | None, minutes: float | None
) -> tuple[list[Cell], bool]:
    """Select the cells that a change can affect, and print on stderr what it changes.

    Args:
        change: see :data:`CHANGE_HELP`.
        folder: a recorded run; None for the newest one.
        minutes: leave out cells beyond this much time on one core, the longest first.

    Returns:
        The cells, and whether the change affects code at all.

    Raises:
        UsageError: the change cannot be read.
        ConformError: there is no recorded run.
    """
    from harness.coverage.affected import find_affected_cells
    from harness.coverage.coverage_map import MAP_FILE, CoverageMap
    from harness.coverage.unexecuted import load_summary
    from harness.extras.releases.affected import find_affected_backends
    from harness.record.folder import load

    folder = folder or find_recorded_run()
    patch = _read_change(change)
    with CoverageMap(folder / MAP_FILE) as recorded:
        summary = load_summary(folder)
        cells = load(folder).cells
        found = find_affected_cells(patch, recorded, summary, cells, find_affected_backends)
    _print_changes(found)
    shown = found.cells if minutes is None else found.select_within(minutes * 60)
    omitted = len(found.cells) - len(shown)
    more = f"; {omitted:,} more are left out by --minutes" if omitted else ""
    seconds = sum(cell.seconds for cell in shown)
    click.echo(f"{len(shown):,} cells, {seconds:.0f} s on one core{more}", err=True)
    if not found.cells and found.changes_code:
        click.echo("no recorded cell executes what the patch changes: it is not tested", err=True)
    return shown, found.changes_code


def _print_changes(found: AffectedCells) -> None:
    from harness.coverage.patches import Reach

    for change in found.changes:
        names = f": {', '.join(change.functions)}" if change.reach is Reach.FUNCTIONS else ""
        reason = f" ({change.reason})" if change.reason else ""
        click.echo(f"{change.name}: {change.reach.value}{names}{reason}", err=True)
    if found.backends:
        click.echo(
            f"{len(found.others)} other files of the patch can affect all cells of "
            f"{', '.join(found.backends)}; conform releases affected has the rules",
            err=True,
        )


def _read_change(change: str) -> str | Sequence[str]:
    """Return a unified diff, or the paths of whole files."""
    if change == "-":
        return sys.stdin.read()
    path = Path(change)
    names = change.split(",")
    if path.is_file() and path.suffix != ".py":
        return path.read_text(encoding="utf-8", errors="replace")
    if ".." in change and not path.exists():
        command = ["git", "diff", "--no-color", "--no-ext-diff", change, "--"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UsageError(f"git diff {change}: {done.stderr.strip() or 'failed'}")
        if not done.stdout:
            raise UsageError(f"git diff {change} is empty")
        return done.stdout
    if all("." in Path(name).name for name in names) and (path.exists() or "/" in change):
        return names
    raise UsageError(
        f"{change!r} is no patch, no range of revisions, and no file; give {CHANGE_HELP}"
    )
