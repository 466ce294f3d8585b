"""Find the first release in which a cell is not what it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConformError, ReleaseError
from harness.extras.releases.available import Release
from harness.extras.releases.environment import Say, python
from harness.extras.releases.run_releases import run_one
from harness.record.cell import Cell
from harness.record.folder import load

BY: dict[str, Callable[[Cell], str]] = {
    "outcome": lambda cell: " in ".join(filter(None, (cell.status.value, cell.stage))),
    "delegation": lambda cell: (
        f"{cell.delegation.delegates} delegates, {cell.delegation.delegated_nodes} nodes taken, "
        f"{cell.delegation.undelegated_nodes} left over"
    ),
    "bytes": lambda cell: f"{cell.program_bytes:,} B",
}
"""What releases are told apart by: a word of a record."""


@dataclass(frozen=True)
class Tried:
    """A cell in one release.

    Attributes:
        release: its version.
        word: what it is told apart by.
        error: why it is no pass; empty if it is one.
        folder: its run.
    """

    release: str
    word: str
    error: str
    folder: Path


@dataclass(frozen=True)
class Found:
    """Where a cell changed.

    Attributes:
        before: the last release in which it is as in the first.
        after: the next one, in which it is not.
        tried: every release that was run, oldest first.
        skipped: releases that could not be tried, with the reason.
        between: those of them that lie between the two, and leave it open which one it was.
    """

    before: Tried
    after: Tried
    tried: list[Tried]
    skipped: dict[str, str]
    between: tuple[str, ...] = ()


def bisect(
    cell: str,
    releases: Sequence[Release],
    folder: Path,
    *,
    by: str = "outcome",
    options: Sequence[str] = (),
    say: Say = print,
) -> Found:
    """Halve the releases between the first and the last until the two that differ are neighbours.

    Args:
        cell: ``CASE@BACKEND:RECIPE``.
        releases: oldest first; the first and the last must differ.
        folder: where the runs go, one a release.
        by: what they are told apart by, of :data:`BY`.
        options: of ``conform run``, beside the cell.
        say: is told of each release.

    Raises:
        ReleaseError: the first and the last are alike, or one of them cannot be tried.
    """
    tried: dict[int, Tried] = {}
    skipped: dict[str, str] = {}

    def at(number: int) -> Tried:
        tried[number] = _try(cell, releases[number], folder, BY[by], options, say)
        say(f"  {tried[number].release}: {tried[number].word}")
        return tried[number]

    low, high = 0, len(releases) - 1
    first, last = at(low), at(high)
    if first.word == last.word:
        raise ReleaseError(
            f"{cell} is the same in {first.release} and {last.release}: {first.word}; "
            f"--by tells releases apart by something else: {', '.join(BY)}"
        )
    left = list(range(low + 1, high))
    while inside := [number for number in left if low < number < high]:
        middle = inside[len(inside) // 2]
        left.remove(middle)
        try:
            found = at(middle)
        except ReleaseError as error:
            skipped[releases[middle].name] = str(error)
            say(f"  {releases[middle].name}: skipped, {error}")
            continue
        if found.word == first.word:
            low = middle
        else:
            high = middle
    between = tuple(release.name for release in releases[low + 1 : high])
    return Found(
        tried[low], tried[high], [tried[number] for number in sorted(tried)], skipped, between
    )


def _try(
    cell: str,
    release: Release,
    folder: Path,
    word: Callable[[Cell], str],
    options: Sequence[str],
    say: Say,
) -> Tried:
    place = folder / release.name
    interpreter = python(release, say)
    chosen = ("-k", cell, "--targets", cell.partition("@")[2], "-m", "nightly or not nightly")
    status = run_one(interpreter, place, [*chosen, "-n", "1", *options], quiet=True)
    try:
        found = load(place).cell(cell)
    except ConformError as error:
        raise ReleaseError(
            f"{cell} left no record with {release.name} (exit code {status}): {error}; "
            f"see what it says: {interpreter} -m harness.cli run -k {cell!r}"
        ) from error
    return Tried(release.name, word(found), (found.error or "").partition("\n")[0], place)
