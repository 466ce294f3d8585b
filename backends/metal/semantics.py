"""What Metal's operators for quantized weights mean: the oracle of a program that has them."""

from __future__ import annotations

from dataclasses import replace

import torch

from backends.metal.quantization import OPERATOR
from harness import GENERIC, Blocks, Product, Semantics
from harness.numerics.formats.microscaling import unpack_nibbles


def int4() -> Semantics:
    """The linear layer of a float activation and unsigned 4-bit codes with scale and offset."""
    return replace(GENERIC, products={OPERATOR: _linear_uint4})


def _linear_uint4(
    activation: torch.Tensor,
    packed: torch.Tensor,
    group: int,
    scale: torch.Tensor,
    offset: torch.Tensor,
) -> Product:
    codes = unpack_nibbles(packed)
    return Product(activation, Blocks(codes, scale.double(), offset.double(), activation.dtype))
