"""Available releases, and their names on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import ReleaseError, UsageError
from harness.extras.releases.available import (
    HERE,
    Release,
    _parse_versions,
    list_between,
    list_wheels,
    parse_release,
)
from harness.extras.releases.tests.wheels import wheel
from harness.vendors.versions import describe_range, describe_unverified, is_within, release_numbers


def test_wheels_in_a_folder_are_in_the_order_of_their_versions(tmp_path: Path) -> None:
    for version in ("1.10.0", "1.9.0", "1.10.0.dev20261101"):
        wheel(tmp_path, version)
    (tmp_path / "torch-2.13.0-py3-none-any.whl").touch()
    (tmp_path / "executorch-1.9.1-cp27-cp27m-win32.whl").touch()  # not for here
    (tmp_path / "no wheel.whl").touch()
    found = [release.version for release in list_wheels(tmp_path)]
    assert found == ["1.9.0", "1.10.0.dev20261101", "1.10.0"]
    inside = list_between(
        parse_release("1.9.0", tmp_path), parse_release("1.10.0", tmp_path), tmp_path
    )
    assert [release.version for release in inside] == found
    assert all(release.wheel for release in inside)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("newest", "is not a release"),
        ("gone.whl", "there is no wheel"),
        ("2.0", "no wheel of executorch 2.0"),
    ],
)
def test_names_that_are_no_release(tmp_path: Path, text: str, said: str) -> None:
    wheel(tmp_path, "1.9.0")
    with pytest.raises(ReleaseError, match=said):
        parse_release(text, tmp_path)


def test_a_folder_without_wheels(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="no wheel of executorch"):
        list_wheels(tmp_path)


def test_a_wheel_of_another_package(tmp_path: Path) -> None:
    other = tmp_path / "torch-2.13.0-py3-none-any.whl"
    other.touch()
    with pytest.raises(ReleaseError, match="is a wheel of torch"):
        parse_release(str(other))


def test_the_older_one_comes_first(tmp_path: Path) -> None:
    wheel(tmp_path, "1.9.0")
    wheel(tmp_path, "1.10.0")
    with pytest.raises(ReleaseError, match="is not before"):
        list_between(parse_release("1.10.0", tmp_path), parse_release("1.9.0", tmp_path), tmp_path)


def test_releases_of_the_index() -> None:
    lines = ["executorch (1.5.1)", "Available versions: 1.5.1, 1.5.0, 1.4.1", "  INSTALLED: 1.5.1"]
    assert _parse_versions(lines) == ["1.5.1", "1.5.0", "1.4.1"]
    assert _parse_versions([]) == []


def test_the_installed_one_has_its_version_as_a_name() -> None:
    assert Release(HERE).name[0].isdigit()


@pytest.mark.parametrize(
    ("since", "until", "release", "inside"),
    [
        ("", "", "1.5.1", True),
        ("1.5.0", "", "1.4.1", False),
        ("1.5", "", "1.5.0", True),
        ("", "1.5.0", "1.5.0", False),
        ("1.4.1", "1.5.0", "1.4.1", True),
        ("1.4.1", "1.5.0", "1.10.0", False),
        # A development version counts as the release that it precedes.
        ("1.6.0", "", "1.6.0a0+g1234", True),
        ("", "1.6.0", "1.6.0.dev20261101", False),
        ("1.5.0", "1.5.1", "", True),
    ],
)
def test_ranges(since: str, until: str, release: str, inside: bool) -> None:
    assert is_within(since, until, release) is inside


def test_words_of_ranges() -> None:
    assert describe_range("1.5.0", "") == "since 1.5.0"
    assert describe_range("", "1.5.1") == "before 1.5.1"
    assert describe_range("1.5.0", "1.5.1") == "1.5.0 until before 1.5.1"
    assert describe_range("", "") == ""
    with pytest.raises(UsageError, match="is no version"):
        release_numbers("newest")


@pytest.mark.parametrize("version", ["1.6.0", "1.5.1.dev20261101", "1.5.1a0+1234abc"])
def test_an_unverified_release(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(
        "harness.vendors.versions.installed_version", lambda package="executorch": version
    )
    assert describe_unverified(("1.5.1",), "the contract") == (
        f"the contract was read for executorch 1.5.1, not for {version}"
    )


def test_a_build_of_a_release_is_that_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "harness.vendors.versions.installed_version", lambda package="executorch": "1.5.1+cpu"
    )
    assert describe_unverified(("1.5.1",), "the contract") == ""
