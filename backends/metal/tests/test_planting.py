"""Faults in generated code are caught."""

from __future__ import annotations

import pytest

from backends.metal.tests.planted_cases import CASES
from backends.metal.tests.planting import Outcome, Prepared, plant_all
from backends.metal.tests.planting_rules import RULES

pytestmark = pytest.mark.filterwarnings("ignore")  # vendors' own

SHARE = 0.95
KINDS = 30


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return plant_all(CASES)


def test_nearly_all_planted_faults_are_caught(outcome: Outcome) -> None:
    print(outcome)
    assert len(outcome.kinds) >= KINDS
    assert outcome.share >= SHARE, str(outcome)


def test_every_kind_of_fault_fits_somewhere(outcome: Outcome) -> None:
    assert outcome.kinds == {rule.kind for rule in RULES}


def test_the_unchanged_program_is_not_caught() -> None:
    prepared = Prepared(CASES[0])
    assert prepared.caught(prepared.code) is None


def test_an_outcome_lists_what_was_missed() -> None:
    outcome = Outcome({("case", "kind", "a -> b"): None, ("case", "kind", "c -> d"): "mismatch"})
    assert outcome.share == 0.5
    assert str(outcome).splitlines() == [
        "1 of 2 planted faults of 1 kinds were caught (50.0%)",
        "  missed in case | kind | a -> b",
    ]
