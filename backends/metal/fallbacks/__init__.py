"""Fallback kernels of the Metal runtime on CPU tensors, with its precision.

Each takes the arguments of the wrapper's call in their order, without the results' pointers at
the end: ``nullptr`` is None, a pointer to a tensor or a double what it points to, an array a
sequence of ints. Out variants and in-place operands are written to; results are returned as a
tuple. What the contract (``backends.metal.contract``) reports is not checked again: strides are
honoured here, also where the runtime forgets them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch

from backends.metal.fallbacks import attention, dense, quantized
from backends.metal.fallbacks.aten import aten_kernel

Implementation: TypeAlias = Callable[..., tuple[torch.Tensor, ...]]

_KERNELS: dict[str, Implementation] = {
    "mm_out": dense.mm_out,
    "addmm_out": dense.addmm_out,
    "bmm_out": dense.bmm_out,
    "convolution": dense.convolution,
    "topk": dense.topk,
    "_scaled_dot_product_attention_math_for_mps": attention.attention,
    "_scaled_dot_product_attention_math_for_mps_v2": attention.attention,
    "gated_delta_rule": attention.gated_delta_rule,
    "_linear_fp_act_4bit_weight": quantized.linear_4bit,
    "gather_qmv": quantized.gather_qmv,
}
IMPLEMENTATIONS: Mapping[str, Implementation] = {
    f"aoti_torch_mps_{name}": function for name, function in _KERNELS.items()
}
"""By the name that the wrapper calls."""


def substitute(function: str) -> Callable[..., object] | None:
    """What computes a call that breaks the contract, once the violation was gone past.

    Args:
        function: by the name that the wrapper calls.

    Returns:
        None where the kernel in :data:`IMPLEMENTATIONS` does, or nothing.
    """
    if function in IMPLEMENTATIONS:
        return _AS_TORCH.get(function)
    return aten_kernel(function)


_AS_TORCH: Mapping[str, Implementation] = {
    name: functools.partial(attention.attention, first_query_sees_first=True)
    for name in IMPLEMENTATIONS
    if "attention" in name
}
