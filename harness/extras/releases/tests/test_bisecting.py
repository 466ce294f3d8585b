"""Bisection of releases, with runs of known outcome."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ReleaseError
from harness.extras.releases import bisect
from harness.extras.releases.available import Release
from harness.record.cell import Status
from reports.tests.runs import cell, write

CELL = "linear/bias@xnnpack:fp32"
VERSIONS = [f"1.{number}.0" for number in range(9)]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs in place of real ones: releases from 1.6 on fail; 1.4 leaves no record."""
    order: list[str] = []

    def run_release(interpreter: Path, folder: Path, options: Sequence[str], **ignored: Any) -> int:
        order.append(folder.name)
        if folder.name == "1.4.0":
            return 3
        fails = int(folder.name.split(".")[1]) >= 6
        ended = {"status": Status.FAILED, "stage": "lower", "error": "no"} if fails else {}
        write(folder, [cell(*CELL.split("@"), **ended)], exit_status=int(fails))
        return int(fails)

    monkeypatch.setattr(bisect, "run_release", run_release)
    monkeypatch.setattr(bisect, "ensure_interpreter", lambda release, on_progress: Path("python"))
    return order


def quiet(said: str) -> None:
    pass


def test_the_release_that_changed_a_cell_is_named(tmp_path: Path, ran: list[str]) -> None:
    releases = [Release(version) for version in VERSIONS]
    found = bisect.bisect(CELL, releases, tmp_path, on_progress=quiet)
    assert (found.before.release, found.after.release) == ("1.5.0", "1.6.0")
    assert (found.before.value, found.after.value) == ("passed", "failed in lower")
    assert list(found.skipped) == ["1.4.0"]
    assert not found.between
    assert "left no record" in found.skipped["1.4.0"]
    assert len(ran) < len(VERSIONS)
    assert [one.release for one in found.tried] == sorted(set(ran) - {"1.4.0"})


def test_a_release_that_cannot_be_tested_leaves_the_result_open(
    tmp_path: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_release = bisect.run_release

    def broken(interpreter: Path, folder: Path, options: Any, **kwargs: Any) -> int:
        return 3 if folder.name == "1.5.0" else run_release(interpreter, folder, options, **kwargs)

    monkeypatch.setattr(bisect, "run_release", broken)
    found = bisect.bisect(CELL, [Release(one) for one in VERSIONS], tmp_path, on_progress=quiet)
    assert (found.before.release, found.after.release) == ("1.3.0", "1.6.0")
    assert found.between == ("1.4.0", "1.5.0")


def test_equal_releases_are_reported_as_equal(tmp_path: Path, ran: list[str]) -> None:
    with pytest.raises(ReleaseError, match=r"is the same in 1\.0\.0 and 1\.3\.0: passed"):
        bisect.bisect(CELL, [Release("1.0.0"), Release("1.3.0")], tmp_path, on_progress=quiet)


def test_a_run_without_a_record_cannot_be_bisected(tmp_path: Path, ran: list[str]) -> None:
    with pytest.raises(ReleaseError, match=r"left no record with 1\.4\.0"):
        bisect.bisect(CELL, [Release("1.4.0"), Release("1.8.0")], tmp_path, on_progress=quiet)
