"""The TOSA specifications that the recipes lower to, in Arm's spelling."""

from __future__ import annotations

FP = "TOSA-1.0+FP"
INT = "TOSA-1.0+INT"
INT16 = "TOSA-1.0+INT+int16"
INT_U55 = "TOSA-1.0+INT+u55"
BF16 = "TOSA-1.0+FP+bf16"
FP_1_1 = "TOSA-1.1+FP"
INT_1_1 = "TOSA-1.1+INT"
MXFP = "TOSA-1.1+FP+bf16+mxfp"

WITHOUT_RECIPE = {
    "shape": "Sizes remain -1 in the graph, which tosa_reference_model refuses (allocateTensor, "
    "'invalid shape with dimension -1'). Arm's tests resolve them with a program `infer_shapes` "
    "(_run_infer_shapes in backends/arm/test/runner_utils.py), which tosa-tools 2026.5.0 does not "
    "contain.",
    "fp8e4m3": "No quantizer of the release makes these floats; test_tosa_fp8.py lowers casts.",
    "fp8e5m2": "No quantizer of the release makes these floats; test_tosa_fp8.py lowers casts.",
    "var": "No code of Arm's backend asks for it.",
    "random": "No code of Arm's backend asks for it.",
    "blockscale_ue5m3": "No code of Arm's backend asks for it.",
    "int4": "Not covered yet: weights of 4 bits (get_symmetric_a8w4_quantization_config).",
    "cf": "Not covered yet: branches and loops (ControlFlowOpSupported).",
    "fft": "Not covered yet: Fourier transforms.",
    "int64": "Not covered yet: integers of 64 bits.",
}
"""Extensions that Arm's TOSA specifications have and no recipe uses, with the reason."""
