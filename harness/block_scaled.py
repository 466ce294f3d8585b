"""Operators that multiply two tensors in an MX format and encode the first of them themselves.

Arm's ``tosa_mxfp::linear`` and ``tosa_mxfp::conv2d`` (executorch, ``backends/arm/ao_ext/ops``)
become TOSA's CAST_TO_BLOCK_SCALED, which encodes the activation, and MATMUL_T_BLOCK_SCALED or
CONV2D_BLOCK_SCALED, which multiply it with a weight that was encoded before export. Here they are
what these operators mean; :mod:`harness.arithmetic` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.microscaling import (
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E5M2,
    Element,
    Encoded,
    ScaleRule,
    decode_scales,
    encode,
    unpack_nibbles,
)

RULE = ScaleRule.TOSA
"""How CAST_TO_BLOCK_SCALED of the pinned reference model chooses a scale. The operators' kernels
for eager take RCEIL, which differs where the greatest magnitude of a block is ``L · 2^k``."""

PAYLOADS = {"f4e2m1": E2M1, "fp6e2m3": E2M3, "fp6e3m2": E3M2, "f8e4m3": E4M3, "f8e5m2": E5M2}
"""Elements by the operators' ``weight_payload_dtype``."""

_DTYPES = {torch.uint8: E2M1, torch.float8_e4m3fn: E4M3, torch.float8_e5m2: E5M2}


@dataclass(frozen=True)
class BlockProduct:
    """A call of such an operator.

    Attributes:
        activation: what it is given; float64.
        element: what both are encoded in.
        axis: of the activation, along which its blocks lie.
        block: how many neighbours share a scale.
        multiply: takes the decoded activation, float64, and returns the result; made of ATen
            operations. Its sums are in float32 where the operator runs.
    """

    activation: torch.Tensor
    element: Element
    axis: int
    block: int
    multiply: Callable[[torch.Tensor], torch.Tensor]

    @property
    def exact_terms(self) -> int:
        """How many neighbouring products float32 sums without rounding: a block's or one.

        TOSA sums the products of a block before it applies the scales (pseudocode of
        MATMUL_T_BLOCK_SCALED, CONV2D_BLOCK_SCALED). They are multiples of the square of the
        smallest element, and exact as long as the greatest sum is below 2^24 of those.
        """
        smallest = float(self.element.table[1])
        greatest = self.block * (self.element.largest / smallest) ** 2
        return self.block if greatest <= 2**24 else 1

    def encode(self, activation: torch.Tensor) -> Encoded:
        """Encode an activation as the operator does: from float32, or what converts to it."""
        return encode(activation.float(), self.element, RULE, self.axis, self.block)

    def unsettled(self, reach: torch.Tensor) -> torch.Tensor:
        """Which elements are encoded otherwise when magnitudes move by ``reach``.

        Both ends count all magnitudes at once, so that the scale of a block moves with them.

        Args:
            reach: float64, the shape of the activation, not negative.

        Returns:
            bool, the shape of the activation.
        """
        sign, magnitude = self.activation.sign(), self.activation.abs()
        ends = (magnitude + reach, (magnitude - reach).clamp_(min=0.0))
        outer, inner = (self.encode(sign * end).values() for end in ends)
        return outer != inner


def block_product(
    operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> BlockProduct | None:
    """What a call multiplies in an MX format, or None for another operator.

    Args:
        operator: the overload that is called.
        args: its arguments.
        kwargs: its arguments by name.

    Raises:
        ValueError: the element format does not follow from the arguments.
    """
    found = PRODUCTS.get(operator._schema.name)
    return None if found is None else found(*args, **kwargs)


def _linear(
    input: torch.Tensor,
    weight_qdata: torch.Tensor,
    weight_scale: torch.Tensor,
    bias: torch.Tensor | None = None,
    block_size: int = 32,
    weight_payload_dtype: str = "",
) -> BlockProduct:
    element, weight = _weight(weight_qdata, weight_scale, weight_payload_dtype)

    def multiply(activation: torch.Tensor) -> torch.Tensor:
        result = torch.nn.functional.linear(activation, weight.squeeze(0))
        # An operator of its own where it runs, too: ADD.
        return result if bias is None else result + bias.double()

    return BlockProduct(input.double(), element, -1, block_size, multiply)


def _conv2d(
    input: torch.Tensor,
    weight_qdata: torch.Tensor,
    weight_scale: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    block_size: int = 32,
    weight_payload_dtype: str = "",
) -> BlockProduct:
    element, weight = _weight(weight_qdata, weight_scale, weight_payload_dtype)
    weight = weight.permute(0, 3, 1, 2)  # stored as (out, height, width, in)

    def multiply(activation: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(
            activation,
            weight,
            None if bias is None else bias.double(),
            list(stride),
            list(padding),
            list(dilation),
            groups,
        )

    return BlockProduct(input.double(), element, 1, block_size, multiply)


def _weight(data: torch.Tensor, scale: torch.Tensor, payload: str) -> tuple[Element, torch.Tensor]:
    """Element and float64 values of a weight whose blocks lie along its last axis.

    The oracle has widened what torch has a floating dtype for: float8 elements and scales come as
    the numbers that they stand for, FP4 (two a byte) and FP6 as codes.
    """
    element = PAYLOADS.get(payload) if payload else _DTYPES.get(data.dtype)
    if element is None:
        raise ValueError(f"no MX element is called {payload!r} or stored as {data.dtype}")
    if data.dtype == torch.uint8:
        codes = unpack_nibbles(data) if element is E2M1 else data
        values = element.table[codes.long()]
    else:
        values = data.double()
    powers = decode_scales(scale) if scale.dtype == torch.uint8 else scale.double()
    return element, values * powers.repeat_interleave(values.shape[-1] // powers.shape[-1], -1)


PRODUCTS: dict[str, Callable[..., BlockProduct]] = {
    "tosa_mxfp::linear": _linear,
    "tosa_mxfp::conv2d": _conv2d,
}
"""By the name of the operator: takes its arguments, returns what it multiplies."""
