"""The covering array of programs and settings."""

from __future__ import annotations

import itertools

import pytest

from harness.model.variations.covering import list_choices
from harness.record.target import Target
from suites.variations.programs import CASES, CHOICES, PLAIN_SHARE, list_programs

_ROWS = [
    (case.name.removeprefix("varied/"), Target.parse(text))
    for case in CASES
    for text in case.targets.split("|")
]


@pytest.mark.parametrize("text", CHOICES)
def test_the_choices_of_a_target_are_those_that_its_backend_offers(text: str) -> None:
    offered = list_choices(Target.parse(text))
    assert {choice: tuple(names) for choice, names in offered.items()} == CHOICES[text]


@pytest.mark.parametrize("text", CHOICES)
def test_no_pair_of_settings_is_untried(text: str) -> None:
    programs = list_programs(Target.parse(text))
    rows = [
        {name, *(each[1:] for each in target.passes)}
        for name, target in _ROWS
        if str(target.base) == text
    ]
    factors = [[name.replace("/", "_") for name in programs], *CHOICES[text].values()]
    for first, second in itertools.combinations(factors, 2):
        for pair in itertools.product(first, second):
            assert any(row.issuperset(pair) for row in rows), pair


def test_a_plain_run_has_a_share() -> None:
    plain = [text for case in CASES for text in case.plain_targets.split("|") if text]
    assert 0.8 < len(plain) * PLAIN_SHARE / len(_ROWS) < 1.25
