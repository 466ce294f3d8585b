"""Runs of several releases, and the file that holds them together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.errors import ReleaseError
from harness.extras.releases import run_releases
from harness.extras.releases.available import Release
from harness.extras.releases.run_releases import ReleaseRun, read_index, run_on_releases


@pytest.fixture
def statuses(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The exit code of each release's run."""
    ended: dict[str, int] = {}

    def run_release(interpreter: Path, folder: Path, options: Sequence[str]) -> int:
        assert list(options) == ["-k", "add"]
        return ended[folder.name]

    monkeypatch.setattr(run_releases, "run_release", run_release)
    monkeypatch.setattr(
        run_releases, "ensure_interpreter", lambda release, on_progress: Path("python")
    )
    return ended


def quiet(said: str) -> None:
    pass


@pytest.mark.parametrize(
    ("first", "second", "worst"), [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 2, 2), (4, 1, 4)]
)
def test_the_worst_run_decides(
    tmp_path: Path, statuses: dict[str, int], first: int, second: int, worst: int
) -> None:
    statuses.update({"1.0": first, "2.0": second})
    assert (
        run_on_releases([Release("1.0"), Release("2.0")], tmp_path / "new", ["-k", "add"], quiet)
        == worst
    )
    assert read_index(tmp_path / "new").releases == [
        ReleaseRun(release="1.0", folder="1.0", status=first),
        ReleaseRun(release="2.0", folder="2.0", status=second),
    ]
    with pytest.raises(ReleaseError, match="already holds a comparison"):
        run_on_releases([Release("1.0"), Release("2.0")], tmp_path / "new", ["-k", "add"], quiet)


def test_a_release_twice(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="named twice"):
        run_on_releases([Release("1.0"), Release("1.0")], tmp_path, [], quiet)


def test_a_folder_without_runs(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"has no releases\.json"):
        read_index(tmp_path)
    (tmp_path / "releases.json").write_text("[]")
    with pytest.raises(ReleaseError, match="cannot be read"):
        read_index(tmp_path)
