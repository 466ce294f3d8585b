"""Block-quantized weights as their formats define them, in float64.

torchao's decoding operators compute in the dtype of the result. Here codes, scales and offsets
are taken as the numbers they stand for; :mod:`harness.numerics.oracle` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.numerics.formats.microscaling import E2M1, unpack_nibbles


@dataclass(frozen=True)
class Blocks:
    """A tensor in blocks: ``(codes - lowest) * scale + offset``.

    Attributes:
        codes: what each code stands for; the shape of the tensor. Of any dtype that has it.
        scale: float64, one a block: each of its sizes divides the tensor's.
        offset: shaped like ``scale``; None for formats that are centred on zero.
        dtype: what the operator rounds its result to.
        lowest: code that stands for zero, where there is an offset.
    """

    codes: torch.Tensor
    scale: torch.Tensor
    offset: torch.Tensor | None
    dtype: torch.dtype
    lowest: float = 0.0

    def values(self) -> torch.Tensor:
        """The decoded tensor, float64."""
        # Each dimension as blocks and what is in one.
        shape, counts = self.codes.shape, self.scale.shape
        apart = [
            n for size, count in zip(shape, counts, strict=True) for n in (count, size // count)
        ]
        once = [n for count in counts for n in (count, 1)]
        values = self.codes.reshape(apart) * self.scale.reshape(once)
        if self.offset is not None:
            values += (self.offset - self.lowest * self.scale).reshape(once)
        return values.reshape(shape)


def _affine(
    codes: torch.Tensor,
    block: Sequence[int],
    scale: torch.Tensor,
    zero: torch.Tensor | None,
    stored: torch.dtype,
    lowest: float | None = None,
    highest: float | None = None,
    dtype: torch.dtype = torch.float32,
) -> Blocks:
    blocks = [size // length for size, length in zip(codes.shape, block, strict=True)]
    scale = scale.double().reshape(blocks)
    zero = torch.zeros_like(scale) if zero is None else zero.double().reshape(blocks)
    low = float(torch.iinfo(stored).min if lowest is None else lowest)
    # As targets store it: codes from zero up, and the offset that this makes necessary.
    return Blocks(codes, scale, scale * (low - zero), dtype, low)


def _int4(
    codes: torch.Tensor,
    scale: torch.Tensor,
    zero: torch.Tensor,
    group: int,
    dtype: torch.dtype = torch.bfloat16,
) -> Blocks:
    scale, zero = scale.double().mT, zero.double().mT
    return Blocks(unpack_nibbles(codes), scale, -scale * zero, dtype)


def _mx(
    codes: torch.Tensor,
    scale: torch.Tensor,
    element: torch.dtype,
    block: int,
    dtype: torch.dtype = torch.float32,
) -> Blocks:
    packed = element is torch.float4_e2m1fn_x2
    values = E2M1.table[unpack_nibbles(codes).long()] if packed else codes.double()
    return Blocks(values, scale.double(), None, dtype)


def _nvfp4(
    codes: torch.Tensor,
    scale: torch.Tensor,
    whole: torch.Tensor,
    block: int,
    dtype: torch.dtype = torch.float32,
) -> Blocks:
    values = E2M1.table[unpack_nibbles(codes).long()]
    block_scale = scale.view(torch.float8_e4m3fn).double()
    return Blocks(values, block_scale * whole.double(), None, dtype)


@dataclass(frozen=True)
class Product:
    """``activation @ weight.T``, for an operator that decodes its weight itself.

    Attributes:
        activation: (M, K).
        weight: (N, K).
    """

    activation: torch.Tensor
    weight: Blocks


DECODERS: dict[str, Callable[..., Blocks]] = {
    "torchao::dequantize_affine": _affine,
    "torchao::dequantize_int4_tensor": _int4,
    "torchao::dequantize_mx": _mx,
    "torchao::dequantize_nvfp4": _nvfp4,
}
"""torchao's, by the name of the operator: takes its arguments, returns the blocks."""


def dequantize(name: str, args: tuple[Any, ...]) -> torch.Tensor:
    """``(q - zero point) * scale`` in float64: an activation of a PT2E-quantized graph, per tensor
    or along an axis."""
    value, scale, zero = args[0].double(), args[1], args[2]
    if "per_channel" in name:
        shape = [1] * value.dim()
        shape[args[3]] = -1
        scale = scale.double().reshape(shape)
        zero = 0.0 if zero is None else zero.double().reshape(shape)
    result: torch.Tensor = (value - zero) * scale
    return result
