"""A copied limitation is the one of the installed release, where several releases differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness import Limitation
from harness.vendors.versions import is_installed_within
from suites.known import copy_limitation
from suites.opinfo.limitations import LIMITATIONS

_NOW = Limitation(target="tosa:fp", case="any/fp32", reason="now")
_BEFORE = replace(_NOW, reason="before", until="1.0.0")


@pytest.mark.parametrize("known", [[_BEFORE, _NOW], [_NOW, _BEFORE]])
def test_the_entry_of_the_installed_release_is_taken(known: list[Limitation]) -> None:
    assert copy_limitation(known, "tosa:fp", "any/fp32", "opinfo/any/*").reason == "now"
    assert copy_limitation(known, "tosa:fp", "any/fp32", "opinfo/any/*").case == "opinfo/any/*"


def test_a_limitation_of_another_release_is_copied_with_its_range() -> None:
    assert copy_limitation([_BEFORE], "tosa:fp", "any/fp32", "opinfo/any/*").until == "1.0.0"
    with pytest.raises(LookupError, match="no limitation of any/fp64 on tosa:fp"):
        copy_limitation([_BEFORE, _NOW], "tosa:fp", "any/fp64", "opinfo/any/*")


def test_samples_of_any_have_the_entry_of_this_release() -> None:
    here = {entry.case for entry in LIMITATIONS if is_installed_within(entry.since, entry.until)}
    assert "opinfo/any/*" in here
