"""Where a run is, in one line, in a view, and in a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from harness.collection.progress import Tally, duration
from harness.collection.tests import sessions
from harness.record.cell import Status


class Clock:
    """A clock that goes when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tally(clock: Clock) -> Tally:
    planned = Counter({"portable:fp32": 10, "tosa:int": 4})
    return Tally(planned, workers=2, clock=clock)


@pytest.fixture
def ends(tally: Tally, clock: Clock) -> Callable[..., None]:
    def end(cell: str, took: float, status: Status = Status.PASSED, error: str = "") -> None:
        tally.start(cell)
        clock.now += took
        tally.end(cell, status, error)

    return end


def test_what_is_left_follows_from_what_cells_of_a_target_took(
    tally: Tally, ends: Callable[..., None]
) -> None:
    assert tally.left() is None
    ends("add/a@portable:fp32", 1.0)
    assert tally.left() == (9 * 1.0 + 4 * 1.0) / 2, "nothing is known of the other target yet"
    ends("add/a@tosa:int", 6.0)
    assert tally.left() == (9 * 1.0 + 3 * 6.0) / 2
    assert tally.line() == "2 of 14 cells, 0 red, 7 s, about 14 s left"


def test_the_end_has_nothing_left(tally: Tally, ends: Callable[..., None]) -> None:
    for target, count in dict(tally.planned).items():
        for number in range(count):
            ends(f"add/{number}@{target}", 10.0)
    assert tally.line() == "14 of 14 cells, 0 red, 2 min 20 s"


def test_the_view_has_targets_running_cells_and_red_ones(
    tally: Tally, ends: Callable[..., None], clock: Clock
) -> None:
    ends("add/a@portable:fp32", 1.0)
    ends("add/a@tosa:int", 2.0, Status.MISMATCH, "output 0: 3 for 4\nmore")
    tally.start("add/b@tosa:int")
    clock.now += 5
    console = Console(width=100)
    with console.capture() as shown:
        console.print(tally.view())
    lines = [" ".join(line.split()) for line in shown.get().splitlines()]
    assert any(line.startswith("portable:fp32") and line.endswith("1/10") for line in lines)
    assert any(line.startswith("tosa:int") and line.endswith("1/4 1 red") for line in lines)
    assert "add/b@tosa:int 5 s" in lines
    assert "✗ add/a@tosa:int mismatch: output 0: 3 for 4" in lines
    assert lines[-1].startswith("2 of 14 cells, 1 red, 8 s, about")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.6, "1 min 00 s"), (125, "2 min 05 s")]
)
def test_a_duration_is_minutes_and_seconds(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("workers", sessions.WORKERS)
def test_a_session_has_lines_in_place_of_letters(workers: str, tmp_path: Path) -> None:
    project = sessions.new_project(tmp_path)
    # The suite kills workers alone; without any, nothing dies.
    sessions.write_suite(project, sessions.SEGFAULT)
    ended = sessions.run(project, "-n", workers, "-q", "--progress", "lines")
    lines = ended.stdout.splitlines()
    assert "5 cells on 1 target" in lines
    died = workers != "0"
    assert any(line.startswith(f"5 of 5 cells, {int(died)} red") for line in lines), ended.stdout
    assert any(line.startswith("✗ death/now@null:eager crashed") for line in lines) == died
    assert not any(set(line) <= set(".F") for line in lines if line)
