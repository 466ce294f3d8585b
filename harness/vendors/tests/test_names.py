"""The installed releases have every private name; a missing one raises a clear error."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import vendors
from harness.errors import PrivateNameError
from harness.vendors import executorch, torch
from harness.vendors.private_names import VENDORS, VERIFIED_RELEASES, PrivateNames
from harness.vendors.versions import installed_version, release_numbers

ALL = [torch.NAMES, executorch.NAMES]

STUB = """
from json import dumps as dumps, loads as loads
from json import decoder as decoder, _vanished as _vanished
from no.such import thing as thing
"""


@pytest.fixture
def some(tmp_path: Path) -> PrivateNames:
    stub = tmp_path / "some.pyi"
    stub.write_text(STUB)
    return PrivateNames("torch", stub, {"json": "texts", "no.such": "things"})


@pytest.mark.parametrize("names", ALL, ids=lambda names: names.vendor)
def test_the_installed_packages_have_all_private_names(names: PrivateNames) -> None:
    assert names.find_missing() == {}
    assert len(names.places) > 10
    assert {module for module, _ in names.places.values()} == set(names.uses)


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_run_with_verified_packages_skips_the_search(vendor: str) -> None:
    assert release_numbers(installed_version(vendor)) in map(
        release_numbers, VERIFIED_RELEASES[vendor]
    )
    assert vendors.find_missing_names() == {}


def test_present_names_are_found_and_missing_names_have_advice(some: PrivateNames) -> None:
    import json
    import json.decoder

    assert some.find("loads") is json.loads
    assert some.find("decoder") is json.decoder
    with pytest.raises(PrivateNameError) as raised:
        some.find("_vanished")
    assert str(raised.value) == (
        f"torch {installed_version('torch')} has no json._vanished, which is needed for texts: "
        "name its replacement in harness/vendors/torch.pyi, or install torch "
        f"{VERIFIED_RELEASES['torch'][-1]}"
    )
    with pytest.raises(PrivateNameError, match=r"has no no\.such\.thing, .* for things"):
        some.find("thing")
    with pytest.raises(AttributeError, match="no 'other'"):
        some.find("other")


def test_all_missing_names_are_listed(some: PrivateNames) -> None:
    assert sorted(some.find_missing()) == ["json._vanished", "no.such.thing"]


def test_an_unverified_release_is_searched(
    monkeypatch: pytest.MonkeyPatch, some: PrivateNames
) -> None:
    monkeypatch.setattr("harness.vendors.versions.installed_version", lambda package: "9.9.0")
    monkeypatch.setattr(torch, "NAMES", some)
    found = vendors.find_missing_names.__wrapped__()
    assert sorted(found) == ["json._vanished", "no.such.thing"]
