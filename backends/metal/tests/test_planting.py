"""Faults in generated code are caught."""

from __future__ import annotations

import pytest

from backends.metal.tests.planted_cases import CASES
from backends.metal.tests.planting import Outcome, Prepared, faults, plant_all
from backends.metal.tests.planting_rules import RULES

pytestmark = pytest.mark.filterwarnings("ignore")  # vendors' own

SHARE = 0.95
KINDS = 30
PARTS = 4
# A plain run plants a third or a half of the kinds, a nightly run all of them.
BY_DAY = 1


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(part, marks=pytest.mark.nightly if part >= BY_DAY else ())
        for part in range(PARTS)
    ],
)
def test_planted_faults_are_caught(part: int) -> None:
    outcome = plant_all(CASES[part::PARTS], most=1)
    print(outcome)
    assert outcome.share >= SHARE, str(outcome)


@pytest.mark.nightly
def test_nearly_all_planted_faults_are_caught_wherever_they_are() -> None:
    outcome = plant_all(CASES)
    print(outcome)
    assert outcome.share >= SHARE, str(outcome)


@pytest.mark.nightly
def test_every_kind_of_fault_fits_somewhere() -> None:
    kinds = {fault.kind for case in CASES for fault in faults(Prepared(case).code)}
    assert kinds == {rule.kind for rule in RULES}
    assert len(kinds) >= KINDS


def test_the_unchanged_program_is_not_caught() -> None:
    prepared = Prepared(CASES[0])
    assert prepared.caught(prepared.code) is None


def test_an_outcome_lists_missed_faults() -> None:
    outcome = Outcome({("case", "kind", "a -> b"): None, ("case", "kind", "c -> d"): "mismatch"})
    assert outcome.share == 0.5
    assert str(outcome).splitlines() == [
        "1 of 2 planted faults of 1 kinds were caught (50.0%)",
        "  missed in case | kind | a -> b",
    ]
