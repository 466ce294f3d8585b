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
    reductions,
    tensor_shape,
)
from backends.coreml.kernels.base import MilKernel

__all__ = ["KERNELS", "MilKernel", "call_kernel"]

# Their import registers the kernels.
MODULES = (
    activation,
    convolution,
    elementwise_binary,
    elementwise_unary,
    linear,
    normalization,
    pooling,
    reductions,
    tensor_shape,
)

KERNELS: Mapping[str, MilKernel] = MappingProxyType(dict(base.get_registered_kernels()))
"""The kernels by MIL operation."""


def call_kernel(name: str, arguments: Mapping[str, Any]) -> torch.Tensor | list[torch.Tensor]:
    """Compute a MIL operation.

    Args:
        name: the operation, such as ``reduce_sum``.
        arguments: its inputs by name; inputs that the operation lacks are absent.

    Raises:
        UnsupportedProgram: no kernel has this name, or the result would not fit into memory.
        ProgramError: the arguments are invalid.
    """
    return base.call_kernel(KERNELS, name, arguments)
