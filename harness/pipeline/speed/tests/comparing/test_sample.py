"""A sample of cells, another for each commit, is lowered to the same bytes with and without speed.

The sample is every 512th case, of all cases but models and nightly ones, on its default targets,
until it has 3 cells. The hash of the commit chooses the first case. Without speed a cell takes one
to two seconds. The nightly run compares every 32nd case.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from harness.pipeline import speed
from harness.pytest_plugin.tests.sessions import ROOT, ended, environment
from harness.record.revision import read_revision

STEP, LEAST = 512, 3
_MODULE = "harness.pipeline.speed.tests.comparing.programs"
_CODE = f"""
import sys
from {_MODULE} import load_cases, print_programs, take_cells
modes, start, step, least, *names = sys.argv[1:]
cells = take_cells(load_cases()[int(start) :: int(step)], int(least))
cells = [cell for cell in cells if not names or cell[0].name in names]
for mode in modes.split(","):
    print("MODE")
    print_programs(cells, mode)
"""


def choose_start(commit: str | None) -> int:
    """The first case of a commit's sample; 0 without git."""
    if commit is None:
        return 0
    return int(hashlib.sha256(commit.encode()).hexdigest(), 16) % STEP


def lower(
    modes: str, *names: str, start: int, without: Sequence[str] = ()
) -> tuple[list[str], ...]:
    """For each mode a line a cell of the sample, or of some of its cases; in one new process."""
    arguments = [_CODE, modes, str(start), str(STEP), str(LEAST), *names]
    # col2im on TOSA goes by the order of a set.
    given = {"PYTHONHASHSEED": "0", speed.NO_SPEED_VARIABLE: ",".join(without)}
    ran = ended("-c", arguments, ROOT, environment() | given)
    assert ran.returncode == 0, ran.stderr
    _, *parts = ran.stdout.split("MODE\n")
    return tuple(
        [line for line in part.splitlines() if line.startswith("PROGRAM ")] for part in parts
    )


def find_cause(is_alike: Callable[[Sequence[str]], bool]) -> str:
    """The part without which the bytes are upstream's: the last of the fewest first parts.

    Args:
        is_alike: whether bytes are upstream's without some parts.
    """
    few, many = 0, len(speed.PARTS)
    if not is_alike(speed.PARTS):
        return "no part: they differ without any"
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if is_alike(speed.PARTS[:middle]) else (middle, many)
    return speed.PARTS[many - 1]


def explain(start: int, ours: Sequence[str], upstreams: Sequence[str]) -> str:
    """Which cell differs first, by which part, and how to see it."""
    mine, other = next(pair for pair in zip(ours, upstreams, strict=True) if pair[0] != pair[1])
    _, target, name, *_ = mine.split()

    def is_alike(without: Sequence[str]) -> bool:
        (lines,) = lower("with", name, start=start, without=without)
        return lines == [line for line in upstreams if line.split()[2] == name]

    command = f"python -m {_MODULE}"
    return (
        f"{name} on {target} differs with speed.\n"
        f"with:    {mine}\nwithout: {other}\n"
        f"cause: {find_cause(is_alike)}\n"
        f"repro: {command} with {name} {target}; {command} without {name} {target}"
    )


@pytest.mark.nightly
def test_a_sample_is_the_same_byte_for_byte() -> None:
    start = choose_start(read_revision(Path(ROOT)).commit)
    # Without speed first: what it caches serves only what comes after it.
    upstreams, ours = lower("without,with", start=start)
    assert len(ours) == len(upstreams) >= LEAST
    # An error that both give would compare equal, too.
    assert any(" lowered " in line for line in ours)
    if ours != upstreams:
        raise AssertionError(explain(start, ours, upstreams))


def test_the_part_that_makes_the_difference_is_found() -> None:
    for cause in speed.PARTS:
        assert find_cause(lambda without, cause=cause: cause in without) == cause
    assert find_cause(lambda without: False).startswith("no part")


def test_commits_have_samples_of_their_own() -> None:
    assert choose_start(None) == 0
    assert {choose_start(f"{commit:040x}") for commit in range(8 * STEP)} == set(range(STEP))
