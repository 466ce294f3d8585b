"""The operations of CoreML's MIL, computed by torch on the CPU.

The specification is coremltools' definition of each operation
(``coremltools/converters/mil/mil/ops/defs``); its numpy value inference is a second opinion in the
tests. Random, image and class label operations have no kernel, nor have constants, control flow,
lists and states, which belong to the executor.

Numbers: constants of rank 0 may be Python numbers. Where such a constant alone has the result's
dtype (``fill``, ``fill_like``, ``one_hot``, ``range_1d``, an operation on constants alone), a
Python float gives float32 and an int int32; a tensor of rank 0 keeps its dtype.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch

from backends.coreml.kernels import (
    activation,
    base,
    convolution,
    elementwise_binary,
    elementwise_unary,
    linear,
    normalization,
    pooling,
    quantization,
    recurrent,
    reductions,
    resizing,
    sampling,
)
from backends.coreml.kernels.base import MilKernel
from backends.coreml.kernels.movement import (
    creation,
    indexing,
    rearrangement,
    scatter,
    selection,
    tensor_shape,
)
from harness import UnsupportedProgram

__all__ = ["KERNELS", "WITHOUT_KERNEL", "MilKernel", "call_kernel"]

# Their import registers the kernels.
MODULES = (
    activation,
    convolution,
    elementwise_binary,
    elementwise_unary,
    linear,
    normalization,
    pooling,
    quantization,
    recurrent,
    reductions,
    resizing,
    sampling,
    creation,
    indexing,
    rearrangement,
    scatter,
    selection,
    tensor_shape,
)

KERNELS: Mapping[str, MilKernel] = MappingProxyType(dict(base.get_registered_kernels()))
"""The kernels by MIL operation."""

_LISTS = "make_list list_length list_write list_read list_gather list_scatter"
_WEIGHTS = (
    "constexpr_affine_dequantize constexpr_cast constexpr_lut_to_dense constexpr_sparse_to_dense "
    "constexpr_blockwise_shift_scale constexpr_lut_to_sparse constexpr_sparse_blockwise_shift_scale"
)
_COMPLEX = (
    "complex complex_abs complex_fft complex_fftn complex_ifft complex_ifftn complex_imag "
    "complex_irfft complex_irfftn complex_real complex_rfft complex_rfftn complex_shape "
    "complex_stft torch_tensor_assign torch_upsample_bilinear torch_upsample_nearest_neighbor"
)

WITHOUT_KERNEL: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(_LISTS.split(), "lists belong to the executor"),
        **dict.fromkeys(("cond", "while_loop"), "control flow belongs to the executor"),
        **dict.fromkeys(("const", "_const_symbolic"), "constants belong to the executor"),
        **dict.fromkeys(_WEIGHTS.split(), "compressed constants belong to the executor"),
        **dict.fromkeys(
            ("read_state", "write_state", "coreml_update_state"), "states belong to the executor"
        ),
        **dict.fromkeys(
            ("random_bernoulli", "random_categorical", "random_normal", "random_uniform"),
            "its result is random, and MIL does not define the generator",
        ),
        "classify": "class labels are a dictionary, not a tensor",
        **dict.fromkeys(_COMPLEX.split(), "coremltools replaces it before it saves a program"),
    }
)
"""Reasons why operations of MIL have no kernel, by operation."""


def call_kernel(name: str, arguments: Mapping[str, Any]) -> torch.Tensor | list[torch.Tensor]:
    """Compute a MIL operation.

    Args:
        name: the operation, such as ``reduce_sum``.
        arguments: its inputs by name; inputs that the operation lacks are absent.

    Returns:
        A tensor; a list for operations of several results (and for ``topk`` without indices).

    Raises:
        UnsupportedProgram: no kernel has this name, the result would not fit into memory, or MIL
            does not define it.
        ProgramError: the arguments are invalid.
    """
    kernel = KERNELS.get(name)
    if kernel is None:
        reason = WITHOUT_KERNEL.get(name, "the operation is unknown")
        raise UnsupportedProgram(f"MIL operation {name} has no kernel: {reason}")
    return base.run_kernel(kernel, name, arguments)
