"""Progress as a line, as a live view, and in a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from harness.pytest_plugin.progress import RunProgress, duration
from harness.pytest_plugin.tests import sessions
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
def tally(clock: Clock) -> RunProgress:
    short = dict.fromkeys([f"add/{number}@portable:fp32" for number in range(10)])
    long = dict.fromkeys([f"attention/{number}@tosa:int" for number in range(4)], 20.0)
    return RunProgress({**long, **short}, workers=2, clock=clock)


@pytest.fixture
def ends(tally: RunProgress, clock: Clock) -> Callable[..., None]:
    def end(cell: str, took: float, status: Status = Status.PASSED, error: str = "") -> None:
        tally.start(cell)
        clock.now += took
        tally.end(cell, status, error)

    return end


def test_what_is_left_follows_from_earlier_times_at_the_pace_of_this_run(
    tally: RunProgress, ends: Callable[..., None]
) -> None:
    assert tally.estimate_seconds_left() == pytest.approx((4 * 20 + 10 * 0.2) / 2)
    ends("attention/0@tosa:int", 40.0)
    # 10 s and 20 s that were expected took 10 s and 40 s.
    assert tally.estimate_seconds_left() == pytest.approx((3 * 20 * 50 / 30 + 10 * 0.2) / 2)
    ends("add/0@portable:fp32", 1.3)
    # Ten cells as if of 0.2 s, and one of 1.3 s.
    assert tally.estimate_seconds_left() == pytest.approx((3 * 20 * 50 / 30 + 9 * 0.3) / 2)
    assert tally.line() == "2 of 14 cells, 0 red, 41 s, about 51 s left"


def test_targets_with_passes_are_counted_together() -> None:
    cells = ["add/a@tosa:fp", "add/a@tosa:fp+cse", "add/a@tosa:fp+cse-dce"]
    assert RunProgress(dict.fromkeys(cells)).planned == {"tosa:fp": 1, "tosa:fp with passes": 2}


def test_the_end_has_nothing_left(tally: RunProgress, ends: Callable[..., None]) -> None:
    for cell in tally.expected:
        ends(cell, 10.0)
    assert tally.line() == "14 of 14 cells, 0 red, 2 min 20 s"


def test_the_view_has_targets_running_cells_and_red_ones(
    tally: RunProgress, ends: Callable[..., None], clock: Clock
) -> None:
    ends("add/1@portable:fp32", 1.0)
    ends("attention/1@tosa:int", 2.0, Status.MISMATCH, "output 0: 3 for 4\nmore")
    tally.start("attention/2@tosa:int")
    clock.now += 5
    console = Console(width=100)
    with console.capture() as shown:
        console.print(tally.view())
    lines = [" ".join(line.split()) for line in shown.get().splitlines()]
    assert any(line.startswith("portable:fp32") and line.endswith("1/10") for line in lines)
    assert any(line.startswith("tosa:int") and line.endswith("1/4 1 red") for line in lines)
    assert "attention/2@tosa:int 5 s" in lines
    assert "✗ attention/1@tosa:int mismatch: output 0: 3 for 4" in lines
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


def test_a_worker_that_dies_as_a_limitation_says_is_not_red(tmp_path: Path) -> None:
    project = sessions.new_project(tmp_path)
    sessions.write_suite(project, sessions.SEGFAULT)
    (project / "suites" / "limitations.py").write_text(
        "from harness.model.limitation import Limitation\nfrom harness.record.cell import Status\n"
        "LIMITATIONS = [Limitation(target='null:*', case='death/*', reason='reads address 0',\n"
        "    outcome=Status.CRASHED)]\n"
    )
    ended = sessions.run(project, "-n", "1", "-q", "--progress", "lines")
    assert ended.returncode == 0, ended.stdout
    assert "5 of 5 cells, 0 red" in ended.stdout
    assert "✗" not in ended.stdout
