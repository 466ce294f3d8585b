"""Numbers have units and never read better than they are; text cannot act."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from reports import text
from reports.tests.runs import numerics


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [
        (0, 0, "–"),
        (0, 10, "0 %"),
        (10, 10, "100 %"),
        (9_999, 10_000, "99.9 %"),
        (1, 10_000, "< 0.1 %"),
        (1, 8, "12.5 %"),
    ],
)
def test_percent_reads_100_only_for_all_and_0_only_for_none(
    part: int, whole: int, expected: str
) -> None:
    assert text.percent(part, whole) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0 s"),
        (0.00004, "40 µs"),
        (0.0123, "12.3 ms"),
        (0.9999, "1.0 s"),
        (59.96, "1 min 00 s"),
        (125.0, "2 min 05 s"),
        (7_260.0, "2 h 01 min"),
        (math.inf, "∞ s"),
    ],
)
def test_seconds_pick_the_unit_that_reads_best(value: float, expected: str) -> None:
    assert text.seconds(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0 B"), (999, "999 B"), (2_048, "2.05 kB"), (999_900, "1 MB"), (7 * 10**12, "7,000 GB")],
)
def test_sizes_are_decimal(value: int, expected: str) -> None:
    assert text.size(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0 KiB"), (41_943_040, "40 MiB"), (1_048_000, "0.999 MiB"), (2_576_980_378, "2.4 GiB"),
     (5_000 * 2**30, "5,000 GiB")],
)  # fmt: skip
def test_memory_is_binary_as_budgets_are(value: int, expected: str) -> None:
    assert text.memory(value) == expected


def test_use_of_a_bound_just_above_one_does_not_read_as_one() -> None:
    assert text.bound_use(1.0000001) == "1.01× bound"
    assert text.bound_use(1.0) == "1× bound"
    assert text.bound_use(math.nan) == "NaN× bound"


def test_use_of_the_limit_of_all_errors_is_not_shown_as_that_of_the_bound_beside_it() -> None:
    one = {"worst_error": 0.9, "bound": 0.1, "bound_used": 9.0}
    assert text.output_use(numerics(**one)) == "9.00× bound"
    assert text.output_use(numerics(**one, rms_steps=0.2, rms_steps_limit=0.1)) == ("9.00× bound")
    both = {**one, "bound_used": 80.0, "rms_steps": 8.0, "rms_steps_limit": 0.1}
    assert text.output_use(numerics(**both)) == "80.00× limit of all errors together"
    passed = {**both, "worst_error": 0.0, "rms_steps": 0.05, "bound_used": 0.05 / 0.1}
    assert text.output_use(numerics(**passed)) == "0.5× limit of all errors together"


@given(st.floats(min_value=1.0, exclude_min=True, allow_infinity=False))
def test_use_of_a_bound_is_above_one_in_text_whenever_it_is(value: float) -> None:
    shown = float(text.bound_use(value).removesuffix("× bound").replace(",", ""))
    assert shown > 1


@pytest.mark.parametrize("spell", [text.measure, text.decibels, text.ulps, text.bound_use])
def test_nonfinite_numbers_are_spelled(spell: Callable[[float | None], str]) -> None:
    assert "NaN" in spell(math.nan)
    assert "−∞" in spell(-math.inf)
    assert spell(None) == "–"


def test_clean_removes_terminal_control_characters() -> None:
    shown = text.clean("\x1b[31mred\x1b[0m \x1b]0;title\x07tab\there\r\nnull\x00 \u202eback")
    assert shown == "red tab\there\nnull\ufffd \ufffdback"


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_line_is_one_clean_line_within_its_limit(value: str, limit: int) -> None:
    shown = text.line(value, limit)
    assert len(shown) <= limit
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", shown)


def test_tail_keeps_the_end_and_counts_omitted_lines() -> None:
    shown = text.tail("\n".join(f"frame {number}" for number in range(1000)), 100)
    assert shown.endswith("frame 999")
    assert "characters left out" in shown.splitlines()[0]
    assert len(shown) < 200


def test_calls_are_most_called_first_and_bounded() -> None:
    ops = {f"op{number}": number for number in range(10)}
    assert text.calls(ops, limit=2) == "op9 ×9, op8 ×8 and 8 more ops"
