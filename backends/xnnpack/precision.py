"""How XNNPACK's kernels round, from their sources."""

from __future__ import annotations

import platform
from dataclasses import replace

from harness.backend_api import Precision

# Integer kernels accumulate exactly. They requantize by a float32 scale and round half to even, as
# the graph does from float32 values (qs8 and qc8w gemm, dwconv and vmul, "fp32" in
# src/microparams-init.c and src/qs8-vmul), or by an integer factor of 21 bits and round half up
# (xnn_init_qs8_add_minmax_*_params): near a tie the result is the neighbouring step. A bias is
# rounded to the accumulator's unit, as in the reference (store_biases). Source: XNNPACK 92a7ad50,
# pinned by executorch's main in August 2026. A factor of 2 needs 16 perturbed runs: with
# 8, the estimated spread of one element in thousands is half the true one. A clamp behind a layer
# is fused into it (xnn_subgraph_fusion in src/subgraph.c), and bounds the sum of the layer.
_LAYERS = frozenset("convolution addmm mm bmm linear".split())
STATIC = Precision(safety=2.0, samples=16, requantization=2.0**-8, fused_clamps=_LAYERS)

# The kernels choose scale and zero point for each row, or each image of a convolution
# (xnn_compute_f32_qx8_convert in src/operator-run.c; QuantParams._from_dynamic_input_node); the
# graph chooses one for the tensor. A row's range is within the tensor's, so both codes are within
# half a step of the tensor's, and at most a step apart. Every element errs, not only those near a
# tie, so the spread needs more runs and a factor of 4.
DYNAMIC = Precision(samples=16)

# The delegate stores the scale of each group of a 4-bit weight, and of a row, in bfloat16
# (NodeVisitor.get_quant_params in operators/node_visitor.py). Its unit roundoff, 2^-8, is 2^16 of
# float32's; the error is common to the group. A module may bring such weights to the float recipe.
FLOAT32 = Precision(scale_roundings=2.0**16)

# A row's int8 codes are the graph's, except at ties: both choose a scale for each row
# (xnn_compute_f32_qx8_convert in src/operator-run.c). Groups are summed in integers, scaled, and
# added in float32 (qd8-f32-qb4w-gemm). The float layers of a model need the factor of 4.
INT4 = replace(DYNAMIC, scale_roundings=FLOAT32.scale_roundings)

# Products of float16 accumulate in float32 on x86 (f16-f32acc-gemm, __avx2_broadcast), in float16
# on Arm (f16-gemm, neonfp16arith): init_f16_gemm_config in src/configs/gemm-config.c. Sums
# accumulate in float32 on both (f16-f32acc-rsum). A convolution may be depthwise, whose kernel
# rounds to float16 after each product (f16-dwconv, fma3), and softmax stores its sum in float16.
_PRODUCTS = frozenset("mm addmm linear bmm".split())
_IS_X86 = platform.machine().lower() in ("x86_64", "amd64", "i686", "x86")
FLOAT16 = Precision(float32_sums=frozenset(("sum", "mean")) | (_PRODUCTS if _IS_X86 else set()))

# bfloat16 is a type of inputs, weights and outputs: products accumulate in float32 (bf16-f32-gemm).
BFLOAT16 = Precision(float32_sums=_PRODUCTS)
