"""The MX reference, compared with the specification's tables, brute force, and ml_dtypes."""

from __future__ import annotations

import math

import ml_dtypes
import numpy
import pytest
import torch
from hypothesis import given, settings, strategies as st

from harness.numerics.formats.microscaling import (
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E5M2,
    ELEMENTS,
    NAN_SCALE,
    Element,
    ScaleRule,
    decode,
    decode_scales,
    encode,
)

ML_DTYPES = {
    "E2M1": ml_dtypes.float4_e2m1fn,
    "E2M3": ml_dtypes.float6_e2m3fn,
    "E3M2": ml_dtypes.float6_e3m2fn,
    "E4M3": ml_dtypes.float8_e4m3fn,
    "E5M2": ml_dtypes.float8_e5m2,
}
every_element = pytest.mark.parametrize("element", ELEMENTS.values(), ids=lambda e: e.name)
every_rule = pytest.mark.parametrize("rule", ScaleRule, ids=lambda r: r.name)


def bits(text: str) -> int:
    return int(text.replace(".", "").replace(" ", ""), 2)


# Sections 5.3.1 to 5.3.3 of the specification: largest and smallest of each kind.
@pytest.mark.parametrize(
    ("element", "code", "value"),
    [
        (E5M2, "0.11111.00", math.inf),
        (E5M2, "1.11111.00", -math.inf),
        (E5M2, "0.11110.11", 57344.0),
        (E5M2, "0.00001.00", 2.0**-14),
        (E5M2, "0.00000.11", 0.75 * 2.0**-14),
        (E5M2, "0.00000.01", 2.0**-16),
        (E4M3, "0.1111.110", 448.0),
        (E4M3, "0.0001.000", 2.0**-6),
        (E4M3, "0.0000.111", 0.875 * 2.0**-6),
        (E4M3, "0.0000.001", 2.0**-9),
        (E3M2, "0.111.11", 28.0),
        (E3M2, "0.001.00", 0.25),
        (E3M2, "0.000.11", 0.1875),
        (E3M2, "0.000.01", 0.0625),
        (E2M3, "0.11.111", 7.5),
        (E2M3, "0.01.000", 1.0),
        (E2M3, "0.00.111", 0.875),
        (E2M3, "0.00.001", 0.125),
        (E2M1, "0.11.1", 6.0),
        (E2M1, "0.01.0", 1.0),
        (E2M1, "1.00.1", -0.5),
    ],
)
def test_the_specification_s_examples(element: Element, code: str, value: float) -> None:
    assert element.table[bits(code)] == value
    assert len(code.replace(".", "")) == element.bits


@pytest.mark.parametrize(
    ("element", "codes"),
    [
        (E5M2, [f"{sign}.11111.{m}" for sign in "01" for m in ("01", "10", "11")]),
        (E4M3, ["0.1111.111", "1.1111.111"]),
        (E3M2, []),
        (E2M3, []),
        (E2M1, []),
    ],
)
def test_these_codes_are_nan_and_no_others(element: Element, codes: list[str]) -> None:
    found = element.table.isnan().nonzero().flatten().tolist()
    assert found == sorted(bits(code) for code in codes)


@every_element
def test_ml_dtypes_knows_the_same_numbers(element: Element) -> None:
    codes = numpy.arange(2**element.bits, dtype=numpy.uint8)
    theirs = codes.view(ML_DTYPES[element.name]).astype(numpy.float64)
    assert numpy.array_equal(element.table.numpy(), theirs, equal_nan=True)
    assert numpy.array_equal(numpy.signbit(theirs), codes >> element.bits - 1 == 1)


def test_scales_are_powers_of_two_and_one_nan() -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    values = decode_scales(codes)
    assert values[:255].tolist() == [math.ldexp(1.0, code - 127) for code in range(255)]
    assert values[NAN_SCALE].isnan()
    theirs = codes.numpy().view(ml_dtypes.float8_e8m0fnu).astype(numpy.float64)
    assert numpy.array_equal(values.numpy(), theirs, equal_nan=True)


def nearest(value: float, element: Element) -> int:
    """Try every code: nearest, ties to the even code, the last one beyond."""
    table = element.table.tolist()
    last = table.index(element.largest)
    return min(range(last + 1), key=lambda code: (abs(table[code] - abs(value)), code % 2))


@every_element
@settings(deadline=None, max_examples=60)
@given(data=st.data())
@pytest.mark.one_of(2)
def test_elements_round_to_nearest_ties_to_even(element: Element, data: st.DataObject) -> None:
    last = element.table.tolist().index(element.largest)
    code = st.integers(0, last - 1)
    # A quarter, a tie and three quarters between neighbours, and other values.
    between = st.builds(
        lambda at, part: float(element.table[at] * (1 - part) + element.table[at + 1] * part),
        code,
        st.sampled_from([0.0, 0.25, 0.5, 0.75]),
    )
    anything = st.floats(0, element.largest, width=32)
    values = data.draw(st.lists(st.one_of(between, anything), min_size=31, max_size=31))
    block = torch.tensor([element.largest, *values]) * torch.tensor([1.0, -1.0] * 16)
    found = encode(block, element)
    assert found.scales.tolist() == [127]
    expected = [nearest(value, element) for value in block.tolist()]
    assert (found.codes & 2 ** (element.bits - 1) - 1).tolist() == expected
    assert torch.equal(found.codes >> element.bits - 1 == 1, block.signbit())


@every_element
@settings(deadline=None, max_examples=60)
@given(raw=st.binary(min_size=128, max_size=128), exponent=st.integers(1, 250))
@pytest.mark.one_of(2)
def test_encoded_values_do_not_change(element: Element, raw: bytes, exponent: int) -> None:
    words = numpy.frombuffer(raw, numpy.uint32)
    # The block's exponents within 32 of each other, so that few underflow.
    exponents = numpy.maximum(exponent - (words >> 23 & 31).astype(numpy.int64), 0)
    pattern = words & 0x807FFFFF | (exponents << 23).astype(numpy.uint32)
    block = torch.from_numpy(pattern.view(numpy.float32).copy())
    for rule in ScaleRule:
        once = encode(block, element, rule)
        again = encode(once.values(), element, ScaleRule.RCEIL)
        assert torch.equal(again.values(), once.values())
        error = (once.values() - block.double()).abs()
        beyond = element.largest * decode_scales(once.scales)
        assert (error <= torch.maximum(once.steps() / 2, block.double().abs() - beyond)).all()
        if rule is not ScaleRule.FLOOR:
            assert (error <= once.steps() / 2).all() or once.scales.item() == 254


def smallest_exponent(amax: float, limit: float, takes_limit: bool) -> int:
    """Try every exponent: return the least one at which amax fits below the limit."""
    for exponent in range(-127, 128):
        top = math.ldexp(limit, exponent)
        if amax < top or (takes_limit and amax == top):
            return exponent
    return 127


@every_rule
@every_element
def test_scales_by_trying_every_exponent(element: Element, rule: ScaleRule) -> None:
    limit, takes_limit = element.largest, rule is ScaleRule.RCEIL or element is E4M3
    if rule is ScaleRule.FLOOR:
        limit, takes_limit = 2.0 ** (math.frexp(limit)[1]), False
    if rule is ScaleRule.TOSA_ROUNDED:  # half a step beyond the greatest number
        limit = {"E2M1": 7.0, "E2M3": 7.75, "E3M2": 30.0, "E4M3": 464.0, "E5M2": 61440.0}[
            element.name
        ]
    for around in (element.largest, limit, 1.0, 1.5):
        for power in (-149, -140, -120, -1, 0, 1, 60, 111):
            exact = numpy.float32(math.ldexp(around, power))
            for value in (exact, *numpy.nextafter(exact, numpy.float32([0, numpy.inf]))):
                amax = float(value)
                if 0 < amax < math.inf:
                    found = encode(torch.full((32,), amax), element, rule).scales.item() - 127
                    assert found == smallest_exponent(amax, limit, takes_limit), amax


@every_rule
@every_element
def test_zeros_infinities_and_nan(element: Element, rule: ScaleRule) -> None:
    blocks = torch.zeros(5, 32)
    blocks[0, 3] = -0.0
    blocks[1, 5], blocks[2, 5], blocks[3, 5] = math.inf, -math.inf, math.nan
    blocks[4] = 1.0
    found = encode(blocks, element, rule)
    assert found.scales[:4].tolist() == [[0], [NAN_SCALE], [NAN_SCALE], [NAN_SCALE]]
    assert found.codes[0].tolist() == [0, 0, 0, 1 << element.bits - 1, *[0] * 28]
    assert not found.codes[1:4].any()
    values = found.values()
    assert values[1:4].isnan().all(), "the whole block"
    assert values[0].abs().sum() == 0
    assert (values[4] == 1).all(), "and no other"


def test_a_value_beyond_the_scale_saturates_with_its_sign() -> None:
    found = encode(torch.tensor([500.0, -511.0, *[0.0] * 30]), E4M3, ScaleRule.FLOOR)
    assert found.values()[:2].tolist() == [448.0, -448.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_blocks_lie_along_any_axis(dtype: torch.dtype) -> None:
    x = torch.randn(3, 64, 2, 5).to(dtype)
    along = encode(x, E4M3, axis=1)
    assert along.codes.shape == (3, 64, 2, 5)
    assert along.scales.shape == (3, 2, 2, 5)
    last = encode(x.movedim(1, -1).contiguous(), E4M3)
    assert torch.equal(along.values(), last.values().movedim(-1, 1))
    assert torch.equal(along.steps(), last.steps().movedim(-1, 1))
    assert encode(torch.zeros(0, 64), E4M3).scales.shape == (0, 2)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="no multiple of 32"):
        encode(torch.zeros(4, 33), E4M3)
    with pytest.raises(ValueError, match="no multiple of 32"):
        encode(torch.zeros(()), E4M3)
    with pytest.raises(ValueError, match="not torch"):
        encode(torch.zeros(32, dtype=torch.int32), E4M3)
    codes = torch.zeros(2, 64, dtype=torch.uint8)
    for shape in ((2, 3), (1, 2), (2,), (2, 0)):
        with pytest.raises(ValueError, match="do not divide"):
            decode(codes, torch.zeros(shape, dtype=torch.uint8), E4M3)
