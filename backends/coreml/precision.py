"""How MIL programs round, as this project executes them.

The kernels are torch's on the CPU (``backends/coreml/kernels``). With FLOAT16, the converter's
default, a program casts its float32 inputs to float16 and computes in it. torch's CPU
kernels accumulate 16-bit products and sums in float32 and round once, and so do the functions. A
device rounds in its own way: the Neural Engine computes in float16 with undocumented accumulation,
and the GPU by Metal's rules. A pass says that the program is right, and nothing about the device's
rounding.
"""

from __future__ import annotations

from harness.backend_api import Precision

# Functions are torch's, within a few ULP. MIL states no accuracy. A division by a constant is a
# product with its rounded reciprocal (the pass divide_to_multiply in coremltools'
# converters/mil/mil/passes/defs/optimize_elementwise_binary.py), and inverse and rsqrt are followed
# by a product.
FLOAT32 = Precision(division_roundings=2.0)

# Operations that stay one MIL operation each (coremltools' frontend/torch/ops.py) and that torch's
# CPU kernels accumulate in float32 and round once: products by oneDNN or with float accumulators
# (aten/src/ATen/native/CPUBlas.cpp), sums, means and softmax with ``at::opmath_type`` (native/cpu/
# SumKernel.cpp, SoftMaxKernel.cpp, AvgPoolKernel.cpp, layer_norm_kernel.cpp). The kernel of a
# transposed convolution computes in float32 itself. Group norms, variances and log_softmax are
# several MIL operations, each rounded to float16.
_FLOAT32_SUMS = frozenset(
    """
    sum mean mm bmm addmm baddbmm mv dot linear convolution native_layer_norm layer_norm _softmax
    avg_pool2d _adaptive_avg_pool2d
    """.split()
)

# A function of float16 is computed in float32 and rounded once (Vectorized<Half> in
# aten/src/ATen/cpu/vec); a sigmoid or tanh of the converter is one MIL operation.
FLOAT16 = Precision(
    arithmetic="float16", function_ulps=1.0, division_roundings=2.0, float32_sums=_FLOAT32_SUMS
)

# A weight is decoded when a model is loaded, codes times scales in float32 (decompress in
# coremltools' mil/ops/defs/iOS18/compression.py), before any product.
WEIGHTS = FLOAT32

# Codes and activations are those of the graph: quantize and dequantize are operations of the
# program, and layers between them compute in float32. Quantize divides by the scale, adds the zero
# point and rounds half to even; the graph multiplies by the reciprocal, so that a tie may go either
# way. The quantizer's symmetric scale of unsigned codes puts the extreme value of each tensor at
# such a tie, 127.5 steps, also in an input (16 of 200 uniform draws got another code there), and
# `requantization` takes codes of an input for exact: codes are judged one by one. As for
# XNNPACK, a factor of 2 needs 16 perturbed runs.
QUANTIZED = Precision(safety=2.0, samples=16, division_roundings=2.0)
