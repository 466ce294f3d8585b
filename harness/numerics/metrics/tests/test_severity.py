"""Severity of wrong outputs: by hand at the limits, of planted errors, and its invariants."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st

from harness.execution.interface import ValuePosition
from harness.numerics.compare import Verdict, compare, compare_output, make_mismatch_row
from harness.numerics.metrics.severity import classify_severity, classify_share
from harness.numerics.oracle import Reference
from harness.record.severity import Severity, find_worst

NEGLIGIBLE, MINOR, MAJOR, CRITICAL = Severity
INF, NAN = math.inf, math.nan
ONE = 2.0**-24
"""The unit roundoff of float32."""


def classify(
    actual: torch.Tensor, oracle: torch.Tensor, bound: float = 0.0, step: float | None = None
) -> Severity | None:
    limits = torch.full(oracle.shape, bound, dtype=torch.float64)
    return classify_severity(actual, oracle, limits, oracle.to(actual.dtype), step=step)


def doubles(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def floats(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def test_they_are_ordered() -> None:
    assert [each.value for each in Severity] == ["negligible", "minor", "major", "critical"]
    assert [each.rank for each in Severity] == [1, 2, 3, 4]
    assert find_worst([MINOR, None, CRITICAL, NEGLIGIBLE]) is CRITICAL
    assert find_worst([None]) is find_worst([]) is None


@pytest.mark.parametrize(
    ("dtype", "off", "expected"),
    [
        # One of 256 values of size 1: the rounding is u, half of the digits are sqrt(u).
        (torch.float32, 0.0, None),
        (torch.float32, 0.99 * ONE, NEGLIGIBLE),
        (torch.float32, 1.01 * ONE, MINOR),
        (torch.float32, 0.99 * 2**-12, MINOR),
        (torch.float32, 1.01 * 2**-12, MAJOR),
        (torch.float32, 11.2, MAJOR),  # half of the energy of 256 ones is 11.3 squared
        (torch.float32, 11.4, CRITICAL),
        (torch.bfloat16, 0.99 * 2**-8, NEGLIGIBLE),
        (torch.bfloat16, 2**-7, MINOR),
        (torch.bfloat16, 2**-3, MAJOR),
        (torch.float16, 0.99 * 2**-11, NEGLIGIBLE),
        (torch.float16, 2**-6, MINOR),
        (torch.float16, 2**-4, MAJOR),
    ],
)
def test_borders_follow_from_the_dtype(
    dtype: torch.dtype, off: float, expected: Severity | None
) -> None:
    actual = torch.ones(256, dtype=dtype)
    oracle = torch.ones(256, dtype=torch.float64)
    oracle[17] -= off
    limits = torch.zeros(256, dtype=torch.float64)
    # Off limits the change would alter the size of the reference; there, the output is changed.
    if off < 1:
        assert classify_severity(actual, oracle, limits, actual) is expected
    else:
        actual[17] += off
        assert classify(actual, torch.ones(256, dtype=torch.float64)) is expected


REFERENCE = torch.randn(16, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def plant_error(name: str) -> torch.Tensor:  # noqa: C901 (a case for each kind of error)
    value = REFERENCE.float()
    match name:
        case "off by 50 %":
            return value * 1.5
        case "off by 0.1 %":
            return value * 1.001
        case "off by 1e-5":
            return value * (1 + 1e-5)
        case "zeros":
            return value * 0
        case "negated":
            return -value
        case "unrelated":
            return torch.randn(16, 64, generator=torch.Generator().manual_seed(1))
        case "rows in another order":
            return value.roll(1, 0)
        case "one NaN":
            value[3, 5] = NAN
        case "one infinite":
            value[3, 5] = INF
        case "one element lost":
            value[3, 5] = 0.0
        case "one channel zero":
            value[:, 5] = 0.0
        case "one element off by a rounding":
            value[3, 5] += 5e-8 if value[3, 5].abs() < 0.5 else 0.0
            value[value.abs().argmin() // 64, value.abs().argmin() % 64] = 0.0
    return value


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("off by 50 %", MAJOR),
        ("off by 0.1 %", MAJOR),
        ("off by 1e-5", MINOR),
        ("zeros", CRITICAL),
        ("negated", CRITICAL),
        ("unrelated", CRITICAL),
        ("rows in another order", CRITICAL),
        ("one NaN", CRITICAL),
        ("one infinite", CRITICAL),
        ("one element lost", MAJOR),
        ("one channel zero", MAJOR),
    ],
)
def test_planted_errors(name: str, expected: Severity) -> None:
    assert classify(plant_error(name), REFERENCE, bound=1e-7) is expected


def test_a_wrong_tiny_value_among_large_ones_is_negligible() -> None:
    """sinh(8.9e-16) that returns 0, and a cell state that is off by 2.8e-12."""
    arguments = torch.linspace(-3, 3, 64, dtype=torch.float64)
    arguments[7] = 8.9e-16
    oracle = arguments.sinh()
    actual = oracle.float()
    actual[7] = 0.0
    bound = oracle.abs() * 1e-6
    assert classify_severity(actual, oracle, bound, oracle.float()) is NEGLIGIBLE
    # As the only element, it is lost as a whole.
    assert classify(floats(0.0), doubles(8.9e-16)) is CRITICAL


def test_errors_within_their_bounds_do_not_count() -> None:
    oracle, actual = doubles(1.0, 1.0, 1.0), floats(1.0, 1.25, 1.0)
    bound = doubles(1e-9, 0.3, 1e-9)
    assert classify_severity(actual, oracle, bound, actual) is None
    actual[2] = 1 + 2**-23
    assert classify_severity(actual, oracle, bound, actual) is MINOR


@pytest.mark.parametrize(
    ("actual", "oracle", "expected"),
    [
        (floats(0.0, 1e-30), doubles(0.0, 0.0), CRITICAL),  # the reference has no size
        (floats(1.0), doubles(1.0 + 2**-25), NEGLIGIBLE),
        (floats(1.0), doubles(1.01), MAJOR),
        (floats(0.0), doubles(1.01), CRITICAL),
        (floats(INF, 1.0), doubles(INF, 1.0 + 2**-25), NEGLIGIBLE),
        (floats(INF, 1.0), doubles(-INF, 1.0), CRITICAL),
        (floats(NAN, 1.0), doubles(NAN, 1.01), MAJOR),
        (floats(1.0, 1.0), doubles(INF, NAN), CRITICAL),
        (floats(3e38, 3e38), doubles(3e38, 3.1e38), MAJOR),
        (floats(3e-42, 3e-42), doubles(3e-42, 0.0), CRITICAL),
        (torch.tensor([1e200, 1e200], dtype=torch.float64), doubles(1e200, 1.01e200), MAJOR),
        (torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4]), MAJOR),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), CRITICAL),
        (torch.tensor(3), torch.tensor(4), CRITICAL),
        (torch.tensor([2**53]), torch.tensor([2**53 + 1]), CRITICAL),
        (torch.tensor([True] * 3), torch.tensor([True, True, False]), MAJOR),
        (torch.tensor([True] * 3), torch.tensor([True, False, False]), CRITICAL),
        (torch.tensor([1, 2]), torch.tensor([1, 2]), None),
        (floats(), doubles(), None),
    ],
)
def test_every_kind_of_output_has_one(
    actual: torch.Tensor, oracle: torch.Tensor, expected: Severity | None
) -> None:
    assert classify(actual, oracle) is expected


def test_a_quantized_output_is_measured_by_its_step() -> None:
    oracle = torch.arange(-128, 128, dtype=torch.float64) / 64
    off = torch.zeros(256)
    # The size is 1.155, half a step 1 / 128: their geometric mean is 6.08 steps.
    for steps, expected in ((0.5, NEGLIGIBLE), (1, MINOR), (6, MINOR), (7, MAJOR)):
        off[3] = steps / 64
        assert classify(oracle.float() + off, oracle, step=1 / 64) is expected


@pytest.mark.parametrize(
    "problem", [torch.zeros(3, 2), torch.zeros(2, 3, dtype=torch.float64), 1.5, None]
)
def test_an_output_of_another_type_is_critical(problem: object) -> None:
    oracle, limits = torch.zeros(2, 3, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64)
    row = compare_output(problem, oracle, limits, torch.zeros(2, 3))
    assert row.severity is CRITICAL
    assert make_mismatch_row(problem, 0, ValuePosition("output", 0), "other").severity is CRITICAL


def test_a_wrong_number_of_outputs_is_critical_and_the_worst_output_counts() -> None:
    value, zeros = torch.zeros(2), torch.zeros(2, dtype=torch.float64)
    reference = Reference([[zeros, zeros]], [[zeros, zeros]], [[value, value]])
    assert compare([[value]], reference).severity is CRITICAL
    assert compare([], reference).severity is CRITICAL
    assert compare([[value, value]], reference).severity is None
    ones = [[zeros + 1, zeros + 1]]
    reference = Reference(ones, [[zeros, zeros]], [[value + 1, value + 1]])
    found = compare([[value + 1.00001, value + 1.1]], reference)
    assert [row.severity for row in found.numerics] == [MINOR, MAJOR]
    assert found.severity is MAJOR
    assert Verdict.from_rows(found.numerics, ["a", "b"]).severity is MAJOR


def test_a_distribution_is_rated_by_how_much_of_it_is_elsewhere() -> None:
    assert [classify_share(share) for share in (0.01, 0.49, 0.5, 1.0)] == [
        MAJOR,
        MAJOR,
        CRITICAL,
        CRITICAL,
    ]


_vectors = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=40)


@settings(max_examples=300, deadline=None)
@given(
    _vectors,
    st.integers(0, 2**32 - 1),
    st.sampled_from([torch.float32, torch.bfloat16, torch.float16, torch.float64]),
    st.floats(0, 12),
    st.floats(1, 1e4),
    st.none() | st.floats(1e-4, 10),
)
def test_larger_errors_are_never_less_severe(
    values: list[float],
    seed: int,
    dtype: torch.dtype,
    digits: float,
    factor: float,
    step: float | None,
) -> None:
    """The oracle moves away from the output, by errors that the dtype may not represent."""
    actual = torch.tensor(values, dtype=torch.float64).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    off = torch.randn(len(values), generator=generator, dtype=torch.float64)
    off *= torch.rand(len(values), generator=generator, dtype=torch.float64) < 0.5
    reference = actual.double()
    bound = 10.0**-digits * reference.abs() * 0.01
    before, after = (
        _rank_errors(actual, reference, off * 10.0**-digits * scale, bound, step)
        for scale in (1.0, factor)
    )
    assert after >= before


def _rank_errors(
    actual: torch.Tensor,
    reference: torch.Tensor,
    off: torch.Tensor,
    bound: torch.Tensor,
    step: float | None,
) -> int:
    """Return the rank of exactly these errors: float64 does not round them."""
    found = classify_severity(reference + off, reference, bound, reference, step=step)
    assert actual.shape == reference.shape
    return 0 if found is None else found.rank


@settings(max_examples=200, deadline=None)
@given(_vectors, st.integers(0, 2**32 - 1), st.floats(0, 9))
def test_neither_order_nor_sign_nor_scale_matters(
    values: list[float], seed: int, digits: float
) -> None:
    reference = torch.tensor(values, dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    off = torch.randn(len(values), generator=generator, dtype=torch.float64) * 10.0**-digits
    limits = torch.zeros(len(values), dtype=torch.float64)
    value = reference + off
    found = classify_severity(value, reference, limits, reference)
    order = torch.randperm(len(values), generator=generator)
    permuted = (each[order] for each in (value, reference, limits, reference))
    assert classify_severity(*permuted) is found
    assert classify_severity(-value, -reference, limits, -reference) is found
    scaled = (2.0**300 * each for each in (value, reference))
    assert classify_severity(*scaled, limits, 2.0**300 * reference) is found
    shape = (1, len(values), 1)
    as_matrix = (each.reshape(shape) for each in (value, reference, limits, reference))
    assert classify_severity(*as_matrix) is found
