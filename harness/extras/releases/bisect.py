"""Finds the first release in which a cell changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConformError, ReleaseError
from harness.extras.releases.available import Release
from harness.extras.releases.environment import ProgressCallback, ensure_interpreter
from harness.extras.releases.run_releases import run_release
from harness.record.cell import Cell
from harness.record.folder import load

CRITERIA: dict[str, Callable[[Cell], str]] = {
    "outcome": lambda cell: " in ".join(filter(None, (cell.status.value, cell.stage))),
    "delegation": lambda cell: (
        f"{cell.delegation.delegates} delegates, {cell.delegation.delegated_nodes} delegated "
        f"nodes, {cell.delegation.undelegated_nodes} fallback nodes"
    ),
    "bytes": lambda cell: f"{cell.program_bytes:,} B",
}
"""Values of a record by which releases are compared."""


@dataclass(frozen=True)
class TriedRelease:
    """A cell on one release.

    Attributes:
        release: its version.
        value: the compared value.
        error: error of the cell; empty if it passed.
        folder: the run folder.
    """

    release: str
    value: str
    error: str
    folder: Path


@dataclass(frozen=True)
class Bisection:
    """Where a cell changed.

    Attributes:
        before: the last release with the same value as the first.
        after: the next release, with another value.
        tried: every release that was run, oldest first.
        skipped: releases that could not be tried, with the reason.
        between: skipped releases between ``before`` and ``after``; one of them may be the cause.
    """

    before: TriedRelease
    after: TriedRelease
    tried: list[TriedRelease]
    skipped: dict[str, str]
    between: tuple[str, ...] = ()


def bisect(
    cell: str,
    releases: Sequence[Release],
    folder: Path,
    *,
    by: str = "outcome",
    options: Sequence[str] = (),
    on_progress: ProgressCallback = print,
) -> Bisection:
    """Bisect releases until two neighbours differ.

    Args:
        cell: ``CASE@BACKEND:RECIPE``.
        releases: oldest first; the first and the last must differ.
        folder: folder of the runs, one for each release.
        by: the compared value, a key of :data:`CRITERIA`.
        options: options of ``conform run`` besides the cell.
        on_progress: called with a line of text for each step.

    Raises:
        ReleaseError: the first and the last do not differ, or one of them cannot be tried.
    """
    tried: dict[int, TriedRelease] = {}
    skipped: dict[str, str] = {}

    def at(number: int) -> TriedRelease:
        tried[number] = _try(cell, releases[number], folder, CRITERIA[by], options, on_progress)
        on_progress(f"  {tried[number].release}: {tried[number].value}")
        return tried[number]

    low, high = 0, len(releases) - 1
    first, last = at(low), at(high)
    if first.value == last.value:
        raise ReleaseError(
            f"{cell} is the same in {first.release} and {last.release}: {first.value}; "
            f"compare another value with --by: {', '.join(CRITERIA)}"
        )
    left = list(range(low + 1, high))
    while inside := [number for number in left if low < number < high]:
        middle = inside[len(inside) // 2]
        left.remove(middle)
        try:
            found = at(middle)
        except ReleaseError as error:
            skipped[releases[middle].name] = str(error)
            on_progress(f"  {releases[middle].name}: skipped, {error}")
            continue
        if found.value == first.value:
            low = middle
        else:
            high = middle
    between = tuple(release.name for release in releases[low + 1 : high])
    return Bisection(
        tried[low], tried[high], [tried[number] for number in sorted(tried)], skipped, between
    )


def _try(
    cell: str,
    release: Release,
    folder: Path,
    read_value: Callable[[Cell], str],
    options: Sequence[str],
    on_progress: ProgressCallback,
) -> TriedRelease:
    place = folder / release.name
    interpreter = ensure_interpreter(release, on_progress)
    chosen = ("-k", cell, "--targets", cell.partition("@")[2], "-m", "nightly or not nightly")
    status = run_release(interpreter, place, [*chosen, "-n", "1", *options], quiet=True)
    try:
        found = load(place).cell(cell)
    except ConformError as error:
        raise ReleaseError(
            f"{cell} left no record with {release.name} (exit code {status}): {error}; "
            f"to see its output: {interpreter} -m harness.cli run -k {cell!r}"
        ) from error
    return TriedRelease(
        release.name, read_value(found), (found.error or "").partition("\n")[0], place
    )
