"""Each review of ``reviewed_mutants.toml`` explains a mutant of the installed code."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.coverage.mutation.operators import list_mutants
from harness.coverage.mutation.reviews import read_reviews
from harness.coverage.vendor_code import list_vendor_files

SUITES = Path(__file__).parents[1]


@pytest.mark.nightly
def test_no_review_is_stale() -> None:
    stale = read_reviews(SUITES)
    for file in list_vendor_files():
        for mutant in list_mutants(file.path.read_bytes(), file.name, file.area):
            stale = [review for review in stale if not mutant.is_explained_by(review)]
        if not stale:
            break
    assert not stale, "remove or mend these reviews: the installed code has no such mutant"
