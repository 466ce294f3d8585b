"""torchao's low-bit linear operators for MPS, declared where their library does not exist.

The library is a dylib for Apple silicon. Export and code generation of a quantized module need only
the operators' signatures, and packing, which is arithmetic on bytes.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

WIDTHS = range(1, 8)
NAMESPACE = "torchao"


@functools.cache
def install() -> None:
    """Declare the operators in this process, unless torchao's library did; then import torchao's.

    Importing ``torchao.experimental.ops.mps`` adds its own shape rules. Declared operators stay:
    a program that names them must remain readable.
    """
    if not hasattr(torch.ops.torchao, "_pack_weight_4bit"):
        library = _library()
        for bits in WIDTHS:
            _declare(library, bits)
    import torchao.experimental.ops.mps  # noqa: F401


def pack(weights: torch.Tensor, bits: int) -> torch.Tensor:
    """Pack a row's values into consecutive bits, the lowest bits of a byte first.

    Args:
        weights: (N, K) uint8, each value below ``2**bits``; K a multiple of 8.
        bits: width of a value, 1 to 7.

    Returns:
        (N, K * bits / 8) uint8.
    """
    rows, columns = weights.shape
    shifts = torch.arange(bits, dtype=torch.uint8)
    stream = (weights.unsqueeze(-1) >> shifts) & 1
    places = torch.tensor([1 << place for place in range(8)], dtype=torch.uint8)
    packed = (stream.reshape(rows, columns * bits // 8, 8) * places).sum(-1)
    return packed.to(torch.uint8)


@functools.cache
def _library() -> Any:
    # Kept alive: an operator disappears with the library object that declared it.
    return torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]


def _declare(library: Any, bits: int) -> None:
    library.define(f"_pack_weight_{bits}bit(Tensor W) -> Tensor")
    library.impl(f"_pack_weight_{bits}bit", functools.partial(pack, bits=bits), "CPU")
    library.define(
        f"_linear_fp_act_{bits}bit_weight"
        "(Tensor A, Tensor B, int group_size, Tensor S, Tensor Z) -> Tensor"
    )
