"""The OCP Microscaling (MX) formats, as their specification defines them.

*OCP Microscaling Formats (MX) Specification*, version 1.0, September 2023; sections are named
where they are used. A block of 32 neighbours shares one scale ``X``, a power of two (E8M0); each
element ``P`` is a small floating-point number, and the block represents ``X · P`` (section 5).

=======  ====  ========  ====  ===========  =========  =================  =========
element  bits  exponent  bias  max normal   smallest   Inf, NaN           section
=======  ====  ========  ====  ===========  =========  =================  =========
E5M2     8     5         15    57344        2^-16      both               5.3.1
E4M3     8     4         7     448          2^-9       NaN: S.1111.111    5.3.1
E3M2     6     3         3     28           2^-4       neither            5.3.2
E2M3     6     2         1     7.5          2^-3       neither            5.3.2
E2M1     4     2         1     6            2^-1       neither            5.3.3
=======  ====  ========  ====  ===========  =========  =================  =========

E8M0 (section 5.4.1) represents ``2^(code - 127)``, and NaN at 0xFF; it has no zero, no sign and no
infinity. A NaN scale makes the whole block NaN.

All results are exact in float64. The code uses none of torch's float8 types, torchao, MLX or
ml_dtypes, so that these can be compared with it.
"""

from __future__ import annotations

import enum
import functools
import math
from dataclasses import dataclass

import torch

BLOCK = 32
"""Elements that share a scale (section 5.2)."""

NAN_SCALE = 0xFF
"""The E8M0 code of NaN (section 5.4.1)."""

_SCALE_BIAS = 127


@dataclass(frozen=True)
class Element:
    """A floating-point element format: sign, exponent, mantissa, from the highest bit down.

    Attributes:
        name: as in the specification.
        exponent_bits: width of the exponent.
        mantissa_bits: width of the mantissa.
        bias: of the exponent.
        largest: greatest magnitude of a normal number.
        has_infinity: the highest exponent is reserved for infinities and NaN, as in IEEE 754.
        has_nan: there is a NaN; without infinities it is the code with all bits set.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    largest: float
    has_infinity: bool = False
    has_nan: bool = False

    @property
    def bits(self) -> int:
        """Width of a code."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def lowest_exponent(self) -> int:
        """Exponent of the smallest normal number, and of the subnormal ones."""
        return 1 - self.bias

    @functools.cached_property
    def table(self) -> torch.Tensor:
        """The number that each code represents: float64, ``2 ** bits`` entries."""
        values = []
        for code in range(2**self.bits):
            sign = -1.0 if code >> (self.bits - 1) else 1.0
            exponent = code >> self.mantissa_bits & 2**self.exponent_bits - 1
            mantissa = code & 2**self.mantissa_bits - 1
            if self.has_infinity and exponent == 2**self.exponent_bits - 1:
                magnitude = math.nan if mantissa else math.inf
            else:
                fraction = mantissa / 2**self.mantissa_bits + (1 if exponent else 0)
                magnitude = math.ldexp(fraction, max(exponent - self.bias, self.lowest_exponent))
                if self.has_nan and not self.has_infinity and magnitude > self.largest:
                    magnitude = math.nan
            values.append(math.copysign(magnitude, sign))
        return torch.tensor(values, dtype=torch.float64)


E5M2 = Element("E5M2", 5, 2, bias=15, largest=57344.0, has_infinity=True, has_nan=True)
E4M3 = Element("E4M3", 4, 3, bias=7, largest=448.0, has_nan=True)
E3M2 = Element("E3M2", 3, 2, bias=3, largest=28.0)
E2M3 = Element("E2M3", 2, 3, bias=1, largest=7.5)
E2M1 = Element("E2M1", 2, 1, bias=1, largest=6.0)

ELEMENTS = {element.name: element for element in (E2M1, E2M3, E3M2, E4M3, E5M2)}
"""The element formats by name."""


class ScaleRule(enum.Enum):
    """How the exponent of a block's scale follows from ``amax``, its greatest magnitude.

    ``L`` is the element's greatest normal number, ``emax`` its exponent. The exponent is kept
    within E8M0's -127 to 127. The specification asks for the first; backends use the others.
    """

    FLOOR = "floor(log2(amax)) - emax"
    """OCP MX 1.0, section 6.3. A value above ``L · X`` saturates."""
    RCEIL = "ceil(log2(amax / L))"
    """The smallest scale at which nothing saturates: cuBLAS' documentation, "1D block scaling",
    torchao's and Arm's mode of that name, and the installed MLX's ``quantize`` (mlx#4353)."""
    TOSA = "floor(log2(amax / L)) + 1"
    """``calc_block_scale`` of TOSA 1.1's draft until March 2026 (commit 3234e28), and the pinned
    reference model: as RCEIL, but an amax of exactly ``L · 2^k`` takes the scale above. For E4M3
    it is RCEIL."""
    TOSA_ROUNDED = "floor(log2(amax / L')) + 1"
    """TOSA's rule since then: ``L'`` is the least value that rounds beyond ``L``. For E4M3 a tie
    rounds to ``L``, and the rule is ``ceil(log2(amax / L'))``."""

    def exponent(self, amax: torch.Tensor, element: Element) -> torch.Tensor:
        """Return the unbiased exponent of each block's scale.

        Args:
            amax: float64, finite, not negative.
            element: the element format.

        Returns:
            int64, shaped like ``amax``, -127 to 127; -127 where ``amax`` is zero.
        """
        limit = element.largest
        emax = math.frexp(limit)[1] - 1
        if self is ScaleRule.TOSA_ROUNDED:
            limit += 2.0 ** (emax - element.mantissa_bits) / 2
        # Both are scaled to [1, 2), so that no logarithm has to be rounded.
        top = limit * 2.0**-emax
        exponent = _exponent(amax)
        fraction = amax * _power(-exponent)
        exponent -= emax
        if self is not ScaleRule.FLOOR:
            # E4M3's last code of the highest exponent is NaN, so that a tie rounds to L.
            takes_limit = self is ScaleRule.RCEIL or element is E4M3
            exponent += (fraction > top if takes_limit else fraction >= top).long()
        return torch.where(amax == 0, -_SCALE_BIAS, exponent.clamp_(-_SCALE_BIAS, _SCALE_BIAS))


@dataclass(frozen=True)
class Encoded:
    """A tensor in an MX format.

    Attributes:
        codes: uint8, the element codes in their lowest bits; the shape of the tensor. Zero under a
            NaN scale.
        scales: uint8, E8M0 codes; shaped like ``codes``, with one scale per block along the axis.
        element: the element format.
        axis: axis along which the blocks lie.
    """

    codes: torch.Tensor
    scales: torch.Tensor
    element: Element
    axis: int = -1

    def values(self) -> torch.Tensor:
        """Decode the tensor: float64, the shape of ``codes``."""
        return decode(self.codes, self.scales, self.element, self.axis)

    def steps(self) -> torch.Tensor:
        """Return the distance of each value to the next greater magnitude on its block's grid.

        Returns:
            float64, the shape of ``codes``; NaN under a NaN scale.
        """
        exponent = _exponent(self.element.table[self.codes.long()])
        unit = _power(
            exponent.clamp_(min=self.element.lowest_exponent) - self.element.mantissa_bits
        )
        return unit * _repeat_per_element(decode_scales(self.scales), self.codes.shape, self.axis)


def encode(
    values: torch.Tensor,
    element: Element,
    rule: ScaleRule = ScaleRule.FLOOR,
    axis: int = -1,
    block: int = BLOCK,
) -> Encoded:
    """Convert a tensor to an MX format (section 6.3).

    A value is divided by its block's scale and rounded to the nearest element, ties to even,
    subnormal ones included. Magnitudes beyond the greatest normal number become that number. Zeros
    keep their sign. A block of zeros has the smallest scale, code 0. A block with an infinity or a
    NaN has a NaN scale: the specification leaves that conversion open, and TOSA defines it so
    (``calc_block_scale``).

    Args:
        values: floating; float64 values must be representable in float32.
        element: the element format.
        rule: how the scale is chosen.
        axis: axis along which neighbours share a scale.
        block: number of neighbours that share a scale.

    Raises:
        ValueError: the axis is no multiple of the block, or the dtype is not floating.
    """
    if not values.is_floating_point():
        raise ValueError(f"MX formats encode floating tensors, not {values.dtype}")
    if values.dim() == 0 or values.shape[axis] % block:
        raise ValueError(f"axis {axis} of {tuple(values.shape)} is no multiple of {block}")
    rows = values.double().movedim(axis, -1)
    blocks = rows.reshape(*rows.shape[:-1], rows.shape[-1] // block, block)
    magnitude = blocks.abs()
    amax = magnitude.amax(-1, keepdim=True)
    finite = amax.isfinite()
    exponent = rule.exponent(torch.where(finite, amax, 0.0), element)
    codes = _round(magnitude * _power(-exponent), element)
    codes |= blocks.signbit().to(torch.uint8) << element.bits - 1
    codes = torch.where(finite, codes, 0).reshape(rows.shape).movedim(-1, axis)
    scales = torch.where(finite, exponent + _SCALE_BIAS, NAN_SCALE).to(torch.uint8)
    return Encoded(codes, scales.squeeze(-1).movedim(-1, axis), element, axis)


def decode(
    codes: torch.Tensor, scales: torch.Tensor, element: Element, axis: int = -1
) -> torch.Tensor:
    """Return ``X · P`` of each element (section 5).

    Args:
        codes: uint8, one code per byte, in its lowest bits; higher bits are ignored.
        scales: uint8, E8M0; one per block along ``axis``, otherwise shaped like ``codes``.
        element: the element format.
        axis: axis along which the blocks lie.

    Returns:
        float64, the shape of ``codes``, exact. NaN where scale or element is.

    Raises:
        ValueError: the shape of the scales does not divide the shape of the codes.
    """
    values = element.table[(codes & 2**element.bits - 1).long()]
    return values * _repeat_per_element(decode_scales(scales), codes.shape, axis)


def decode_scales(scales: torch.Tensor) -> torch.Tensor:
    """Convert E8M0 codes (uint8) to float64; 0xFF is NaN (section 5.4.1)."""
    powers = _power(scales.long() - _SCALE_BIAS)
    return torch.where(scales == NAN_SCALE, math.nan, powers)


def unpack_nibbles(packed: torch.Tensor) -> torch.Tensor:
    """Unpack two four-bit codes per byte, the lower half first; the last axis doubles.

    The specification has no memory layout (section 5); this one is torchao's, Arm's and MLX's.
    """
    data = packed.contiguous().view(torch.uint8)
    return torch.stack([data & 15, data >> 4], -1).flatten(-2)


def _exponent(values: torch.Tensor) -> torch.Tensor:
    """Return ``floor(log2(abs(values)))`` of normal float64 values, int64; less for zero."""
    return (values.view(torch.int64) >> 52 & 0x7FF) - 1023


def _power(exponent: torch.Tensor) -> torch.Tensor:
    """Return ``2 ** exponent``, float64, exact; the exponent is int64, -1022 to 1023."""
    bits: torch.Tensor = exponent + 1023 << 52
    return bits.view(torch.float64)


def _round(magnitude: torch.Tensor, element: Element) -> torch.Tensor:
    """Return codes without sign of magnitudes that are divided by their scale (section 6.3)."""
    exponent = _exponent(magnitude).clamp_(min=element.lowest_exponent)
    # A carry of the mantissa continues into the exponent, as it should.
    mantissa = (magnitude * _power(element.mantissa_bits - exponent)).round_()
    code = mantissa + (exponent - element.lowest_exponent) * 2**element.mantissa_bits
    last = int((element.table == element.largest).nonzero())
    # NaN becomes the last code here; the caller replaces it in blocks with a NaN scale.
    codes: torch.Tensor = code.nan_to_num_(nan=last).clamp_(max=last).to(torch.uint8)
    return codes


def _repeat_per_element(per_block: torch.Tensor, shape: torch.Size, axis: int) -> torch.Tensor:
    """Repeat one entry per block to one per element."""
    count = per_block.shape[axis] if per_block.dim() == len(shape) else 0
    expected = list(shape)
    if expected:
        expected[axis] = count
    if list(per_block.shape) != expected or (shape[axis] % count if count else shape[axis]):
        raise ValueError(f"scales {tuple(per_block.shape)} do not divide codes {tuple(shape)}")
    return per_block.repeat_interleave(shape[axis] // count if count else 1, axis)
