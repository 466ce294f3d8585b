"""Rounding models of OpenVINO's CPU plugin (2026.4), read from its kernels and oneDNN's."""

from __future__ import annotations

from harness.backend_api import Precision

# Products accumulate in float32 (oneDNN's brgemm and jit convolutions of f32; inference precision
# f32 forbids bf16 inside of them). exp is 2^n times a polynomial of degree 5; its reduction is one
# fused multiply-add with a float32 ln 2, which errs by less than a rounding of the argument
# (exp_compute_vector_fwd in oneDNN's jit_uni_eltwise_injector.cpp). A division by a constant is a
# product with its reciprocal (ConvertDivideWithConstant), and softmax multiplies by 1 / sum
# (jit_uni_softmax.cpp): two roundings. erf is a formula with an absolute error, which is a
# limitation and no part of the model (jit_erf_emitter: Abramowitz and Stegun, 7.1.26).
FLOAT32 = Precision(division_roundings=2.0)

# Integer products accumulate exactly in int32. The reference spells out what FakeQuantize computes
# in float32 (spell_fake_quantize), so that a code next to a tie may be either one, and no step is
# allowed elsewhere. A chain of jumps needs more runs.
STATIC = Precision(division_roundings=2.0, samples=16)

# Without a limit of instruction sets the plugin computes float32 programs in the precision that the
# processor has products of (INFERENCE_PRECISION_HINT): bfloat16, on Arm float16, which rounds less.
# Products, sums, softmax and MVN accumulate in float32 (oneDNN's brgemm_bf16; jit_uni_reduce,
# jit_uni_softmax and mvn of the plugin).
CHOSEN = Precision(
    arithmetic="bfloat16",
    division_roundings=2.0,
    float32_sums=frozenset(
        """
        sum mean mm bmm addmm baddbmm linear convolution native_layer_norm layer_norm _softmax
        avg_pool2d _adaptive_avg_pool2d
        """.split()
    ),
)
