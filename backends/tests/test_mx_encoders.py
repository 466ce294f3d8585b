"""torchao's, MLX's and TOSA's block encoders, bit for bit against the MX reference.

Where an encoder and the specification disagree the difference is an entry of :data:`GAPS`, which
holds the wrong bits: an upstream fix turns it red. The property tests leave out exactly the
elements or blocks that an entry is about, named by the functions below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from backends.tests.mx_encoders import COUNT, Array, Encoder, blocks_of, mlx, torchao, tosa
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
    encode,
)

FLOOR, RCEIL, TOSA, TOSA_ROUNDED = ScaleRule

pytestmark = pytest.mark.filterwarnings("ignore:.*:FutureWarning")  # torchao's own


def reference(blocks: Array, element: Element, rule: ScaleRule) -> tuple[Array, Array]:
    made = encode(torch.from_numpy(blocks), element, rule)
    return made.codes.numpy(), made.scales.flatten().numpy()


# Conditions of the entries: masks of blocks, (count,).


def infinite(blocks: Array, element: Element, rule: ScaleRule) -> Array:
    """Select blocks with an infinity and no NaN."""
    return numpy.isinf(blocks).any(1) & ~numpy.isnan(blocks).any(1)


def not_finite(blocks: Array, element: Element, rule: ScaleRule) -> Array:
    """Select blocks with an infinity or a NaN."""
    return ~numpy.isfinite(blocks).all(1)


def all_zero(blocks: Array, element: Element, rule: ScaleRule) -> Array:
    """Select blocks of zeros."""
    return (blocks == 0).all(1)


def lowest_scale(blocks: Array, element: Element, rule: ScaleRule) -> Array:
    """The scale is 2^-127, and not all are zeros."""
    return (reference(blocks, element, rule)[1] == 0) & ~all_zero(blocks, element, rule)


def subnormal_quotient(blocks: Array, element: Element, rule: ScaleRule) -> Array:
    """amax / L is below float32's normal numbers."""
    return numpy.abs(blocks).max(1).astype(numpy.float64) < element.largest * 2.0**-126


def rounded_logarithm(blocks: Array, element: Element, rule: ScaleRule) -> Array:
    """amax is no ``L · 2^k``, but log2(amax / L) rounds to an integer in float32, or next to it."""
    amax = numpy.abs(blocks).max(1)
    with numpy.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = amax.astype(numpy.float64) / element.largest
        logarithm = numpy.abs(numpy.log2(ratio))
        off = numpy.abs(logarithm - numpy.round(logarithm))
        near = off <= 2 * numpy.spacing(logarithm.astype(numpy.float32))
        return near & (numpy.frexp(ratio)[0] != 0.5)


@dataclass(frozen=True)
class Gap:
    """A difference between an encoder and the specification for some blocks.

    Attributes:
        name: description of the difference.
        encoder: gives the wrong bits.
        element: the element format.
        rule: the rule of the specification or of the encoder's documentation.
        values: the first elements of the block; zeros follow.
        scale: the encoder's, wrong or not.
        codes: the encoder's, of ``values``.
        cause: upstream's file and function.
    """

    name: str
    encoder: Encoder
    element: Element
    rule: ScaleRule
    values: tuple[float, ...]
    scale: int
    codes: tuple[int, ...]
    cause: str


def next_up(value: float) -> float:
    return float(numpy.nextafter(numpy.float32(value), numpy.float32(numpy.inf)))


def next_down(value: float) -> float:
    return float(numpy.nextafter(numpy.float32(value), numpy.float32(0)))


def of_torchao(element: Element, mode: str) -> Encoder:
    return partial(torchao, element=element, mode=mode)


TO_MX = "torchao/prototype/mx_formats/mx_tensor.py"
MLX_OPS = "mlx/ops.cpp, fp_quantize (fallback)"
MODEL = "TOSA reference model 2026.5.0, CAST_TO_BLOCK_SCALED"
ARM = "executorch/backends/arm/ao_ext/mxfp.py, _cast_to_block_scaled_cpu_ref"
LOG2 = "the logarithm is rounded to float32 before ceil or floor"

GAPS = (
    *(
        Gap(
            f"an amax of L takes the next scale, {element.name}",
            partial(tosa, element=element),
            element,
            TOSA_ROUNDED,
            (element.largest, -1.0),
            128,
            codes,
            f"{MODEL}: the draft before tosa-specification 3234e28",
        )
        for element, codes in (
            (E2M1, (0b0101, 0b1001)),
            (E2M3, (0b010111, 0b100100)),
            (E3M2, (0b011011, 0b101000)),
            (E5M2, (0b01110111, 0b10111000)),
        )
    ),
    Gap(
        "an amax that would round to L takes the next scale, E4M3",
        partial(tosa, element=E4M3),
        E4M3,
        TOSA_ROUNDED,
        (460.0, -1.0),
        128,
        (0x76, 0xB0),
        f"{MODEL}: the draft before tosa-specification 3234e28",
    ),
    Gap(
        "an amax just below L · 2^30 takes the next scale, E2M1",
        partial(tosa, element=E2M1),
        E2M1,
        TOSA,
        (next_down(6.0 * 2.0**30),),
        158,
        (0b0101,),
        f"{MODEL}: {LOG2}",
    ),
    Gap(
        "an amax just above L · 2^30 keeps its scale, E4M3",
        partial(tosa, element=E4M3),
        E4M3,
        TOSA,
        (next_up(448.0 * 2.0**30),),
        157,
        (0x7E,),
        f"{MODEL}: {LOG2}",
    ),
    Gap(
        "an amax just above L · 2^30 keeps its scale and saturates",
        of_torchao(E4M3, "RCEIL"),
        E4M3,
        RCEIL,
        (next_up(448.0 * 2.0**30),),
        157,
        (0x7E,),
        f"{TO_MX}, _to_mx_rceil: {LOG2}",
    ),
    Gap(
        "blocks of the lowest scale become zeros, RCEIL",
        of_torchao(E4M3, "RCEIL"),
        E4M3,
        RCEIL,
        (2.0**-126, -(2.0**-127)),
        0,
        (0x00, 0x80),
        f"{TO_MX}, _to_mx_rceil: exponent 0 multiplies by 1, not by 2^127",
    ),
    Gap(
        "blocks of the lowest scale come out half, FLOOR",
        of_torchao(E4M3, "FLOOR"),
        E4M3,
        FLOOR,
        (2.0**-126, -(2.0**-127)),
        0,
        (0x38, 0xB0),
        f"{TO_MX}, to_mx: the scale is clamped to 2^-126 for the division, and stored as 2^-127",
    ),
    Gap(
        "an infinity is a finite number, RCEIL",
        of_torchao(E4M3, "RCEIL"),
        E4M3,
        RCEIL,
        (math.inf, -1.0),
        254,
        (0x7E, 0x80),
        f"{TO_MX}, _to_mx_rceil: E8M0 has 254 for it",
    ),
    Gap(
        "an infinity is a finite number, FLOOR",
        of_torchao(E4M3, "FLOOR"),
        E4M3,
        FLOOR,
        (math.inf, -1.0),
        247,
        (0x7E, 0x80),
        f"{TO_MX}, to_mx: the exponent of an infinity is taken for that of a number",
    ),
    Gap(
        "eager takes another scale than the lowered program where amax is L · 2^k",
        of_torchao(E2M1, "RCEIL"),
        E2M1,
        TOSA,
        (6.0, -0.25),
        127,
        (0b0111, 0b1000),
        f"{ARM}: RCEIL for what TOSA defines otherwise",
    ),
    Gap(
        "a block of zeros has a scale of one",
        partial(mlx, element=E4M3),
        E4M3,
        RCEIL,
        (0.0,),
        127,
        (0x00,),
        f"{MLX_OPS}: the exponent of a zero scale is 0",
    ),
    Gap(
        "a scale below 2^-127 wraps around to a great one",
        partial(mlx, element=E4M3),
        E4M3,
        RCEIL,
        (448.0 * 2.0**-130,),
        253,
        (0x7E,),
        f"{MLX_OPS}: exponent + 127 is cast to uint8 without a limit",
    ),
    Gap(
        "an amax just above L · 2^-127 keeps its scale",
        partial(mlx, element=E4M3),
        E4M3,
        RCEIL,
        (next_up(448.0 * 2.0**-127),),
        0,
        (0x7E,),
        f"{MLX_OPS}: amax / 448 is subnormal and rounds to 2^-127",
    ),
    Gap(
        "ties go to the smaller code",
        partial(mlx, element=E2M1),
        E2M1,
        RCEIL,
        (6.0, 0.75, -1.75, 3.5, 2.5),
        127,
        (7, 1, 8 + 3, 5, 4),
        f"{MLX_OPS}: argmin over the table takes the first of two",
    ),
    Gap(
        "a negative value that rounds to zero loses its sign",
        partial(mlx, element=E2M1),
        E2M1,
        RCEIL,
        (6.0, -0.125, -0.0),
        127,
        (7, 0, 0),
        f"{MLX_OPS}: argmin over the table finds +0 before -0",
    ),
)


@pytest.mark.parametrize("gap", GAPS, ids=lambda gap: gap.name)
def test_a_known_difference_is_still_there(gap: Gap) -> None:
    block = numpy.zeros((COUNT, 32), numpy.float32)
    block[:, : len(gap.values)] = gap.values
    codes, scales = gap.encoder(block)
    found = int(scales[0]), *codes[0, : len(gap.values)].tolist()
    assert found == (gap.scale, *gap.codes), f"upstream changed: {gap.cause}"
    right_codes, right_scales = reference(block, gap.element, gap.rule)
    right = int(right_scales[0]), *right_codes[0, : len(gap.values)].tolist()
    assert found != right, "no difference: delete the entry and its exclusion"


@pytest.mark.parametrize("element", [E4M3, E2M1], ids=lambda e: e.name)
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_mlx_has_a_number_for_infinity_and_nan(element: Element, value: float) -> None:
    """``fp_quantize`` in mlx/ops.cpp casts an exponent that is no number; which number that gives
    is up to the host."""
    block = numpy.zeros((1, 32), numpy.float32)
    block[0, 0] = value
    assert mlx(block, element)[1][0] != NAN_SCALE


def agree(
    encoder: Encoder,
    element: Element,
    rule: ScaleRule,
    blocks: Array,
    *left_out: Callable[[Array, Element, ScaleRule], Array],
) -> None:
    """Scales agree, and codes agree where the scale is not NaN, except in blocks of known
    differences."""
    known = numpy.zeros(len(blocks), bool)
    for gap in left_out:
        known |= gap(blocks, element, rule)
    codes, scales = encoder(blocks)
    right_codes, right_scales = reference(blocks, element, rule)
    wrong = (codes != right_codes).any(1) & (right_scales != NAN_SCALE) | (scales != right_scales)
    for at in numpy.flatnonzero(wrong & ~known):
        pytest.fail(
            f"of {[value.hex() for value in blocks[at].tolist()]}\n"
            f"encoder {scales[at]}: {codes[at]}\nreference {right_scales[at]}: {right_codes[at]}"
        )


every_element = pytest.mark.parametrize("element", ELEMENTS.values(), ids=lambda e: e.name)
# The test prints the failing block; shrinking the other blocks would take minutes.
many = settings(
    deadline=None,
    max_examples=40,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.one_of(3)
@every_element
@many
@given(data=st.data())
def test_torchao_floor(element: Element, data: st.DataObject) -> None:
    blocks = data.draw(blocks_of(element))
    agree(of_torchao(element, "FLOOR"), element, FLOOR, blocks, infinite, lowest_scale)


@pytest.mark.one_of(3)
@every_element
@many
@given(data=st.data())
def test_torchao_rceil(element: Element, data: st.DataObject) -> None:
    gaps = infinite, lowest_scale, rounded_logarithm
    agree(of_torchao(element, "RCEIL"), element, RCEIL, data.draw(blocks_of(element)), *gaps)


@pytest.mark.one_of(3)
@every_element
@many
@given(data=st.data())
def test_tosa_float32(element: Element, data: st.DataObject) -> None:
    blocks = data.draw(blocks_of(element))
    agree(partial(tosa, element=element), element, TOSA, blocks, rounded_logarithm)


@every_element
@many
@given(data=st.data())
def test_tosa_bfloat16(element: Element, data: st.DataObject) -> None:
    blocks = torch.from_numpy(data.draw(blocks_of(element))).bfloat16().float().numpy()
    # No bfloat16 number is so near L · 2^k that the logarithm rounds.
    agree(partial(tosa, element=element, source="BF16"), element, TOSA, blocks)


@many
@given(data=st.data())
def test_mlx_mxfp8(data: st.DataObject) -> None:
    gaps = not_finite, all_zero, subnormal_quotient
    agree(partial(mlx, element=E4M3), E4M3, RCEIL, data.draw(blocks_of(E4M3)), *gaps)


@many
@given(data=st.data())
def test_mlx_mxfp4(data: st.DataObject) -> None:
    blocks = data.draw(blocks_of(E2M1))
    gaps = not_finite, all_zero, subnormal_quotient

    def corrected(given: Array) -> tuple[Array, Array]:
        """MLX's encoder, with the reference's code where a tie or zero is a known difference."""
        codes, scales = mlx(given, E2M1)
        right, right_scales = reference(given, E2M1, RCEIL)
        powers = numpy.ldexp(1.0, right_scales.astype(int) - 127)[:, None]
        with numpy.errstate(invalid="ignore"):
            magnitudes = numpy.abs(given.astype(numpy.float64)) / powers
        ties = numpy.isin(magnitudes, (0.75, 1.75, 3.5)) & (codes == right - 1)
        zeros = (right == 0b1000) & (codes == 0)
        return numpy.where(ties | zeros, right, codes), scales

    agree(corrected, E2M1, RCEIL, blocks, *gaps)
