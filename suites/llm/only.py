"""Targets of these suites, and what loads upstream's operators."""

from __future__ import annotations

import torch

TARGETS = "portable:fp32|xnnpack:fp32"
"""Their kernels are the runtime's: a delegate takes what is around them."""


def load_operators() -> None:
    """Register ``llama::*`` and ``quantized_decomposed::*`` with torch and with the runtime."""
    import executorch.exir.passes
    import executorch.kernels.quantized
    from executorch.extension.llm.custom_ops import custom_ops

    del custom_ops, executorch


def check_position(start: int, tokens: int, capacity: int) -> None:
    """State the range of a position for export."""
    torch._check_is_size(start)
    torch._check(start < capacity)
    torch._check(start + tokens <= capacity)
