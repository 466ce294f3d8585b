"""Fallback kernels of the Metal runtime on CPU tensors, with its precision.

Each takes the arguments of the wrapper's call in order, without the result pointers at the end:
``nullptr`` is None, a pointer to a tensor or a double is its target, an array is a sequence of
ints. Out variants and in-place operands are written to; results are returned as a tuple. The
contract (``backends.metal.contract``) reports violations; these kernels do not check again, and use
strides also where the runtime ignores them.
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
"""Kernels by the name that the wrapper calls."""


def substitute(function: str) -> Callable[..., object] | None:
    """Return the replacement for a call that breaks the contract, when execution continues.

    Args:
        function: the name that the wrapper calls.

    Returns:
        None if :data:`IMPLEMENTATIONS` has the kernel, or no kernel exists.
    """
    if function in IMPLEMENTATIONS:
        return _AS_TORCH.get(function)
    return aten_kernel(function)


_AS_TORCH: Mapping[str, Implementation] = {
    name: functools.partial(attention.attention, first_query_sees_first=True)
    for name in IMPLEMENTATIONS
    if "attention" in name
}
