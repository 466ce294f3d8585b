"""Functions that mlx's CPU backend computes worse than the Metal kernels that ship, as these do.

The emulation stands for the device: what is wrong on this host alone would accuse the wrong party.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy
import torch


def erf(x: mx.array) -> mx.array:
    """The error function, rounded once.

    The CPU takes formula 7.1.26 of Abramowitz and Stegun (mlx/backend/cpu/simd/math.h), off
    by up to 5e-7 whatever the value; the device's kernel is accurate to an ULP
    (mlx/backend/metal/kernels/erf.h). Integers and booleans give float32
    (``at_least_float`` in mlx/ops.cpp).
    """
    dtype = x.dtype if mx.issubdtype(x.dtype, mx.inexact) else mx.float32
    # float32 holds every 16-bit value, and numpy knows no bfloat16.
    values = torch.from_numpy(numpy.array(x.astype(mx.float32)))
    exact = torch.erf(values.double()).float()
    return mx.array(exact.numpy()).astype(dtype)


def quantized_matmul(
    x: mx.array, w: mx.array, scales: mx.array, biases: mx.array | None, **options: Any
) -> mx.array:
    """``mx.quantized_matmul``, summed in float32 and rounded once."""
    return _summed_wide(mx.quantized_matmul, x, w, scales, biases, (), options)


def gather_qmm(
    x: mx.array,
    w: mx.array,
    scales: mx.array,
    biases: mx.array | None,
    *indices: mx.array | None,
    **options: Any,
) -> mx.array:
    """``mx.gather_qmm``, likewise."""
    return _summed_wide(mx.gather_qmm, x, w, scales, biases, indices, options)


def _summed_wide(
    product: Any,
    x: mx.array,
    w: mx.array,
    scales: mx.array,
    biases: mx.array | None,
    indices: tuple[mx.array | None, ...],
    options: dict[str, Any],
) -> mx.array:
    """A product with quantized weights as the device's kernels compute it.

    On x86 the CPU sums in the dtype of ``x`` (``_qmm_t`` and ``fp_qmm_t`` in
    mlx/backend/cpu/quantized.cpp); the device's kernels sum 16-bit products in float32
    (mlx/backend/metal/kernels/quantized.h, fp_quantized.h).
    """

    def widened(array: Any) -> Any:
        is_half = array is not None and array.dtype in (mx.bfloat16, mx.float16)
        return array.astype(mx.float32) if is_half else array

    given = (widened(x), w, widened(scales), widened(biases))
    made: mx.array = product(*given, *indices, **options)
    return made.astype(x.dtype)
