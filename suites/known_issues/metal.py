"""Issues of Metal's runtime and of the code that Inductor generates for it."""

from __future__ import annotations

from harness import KnownIssue
from suites.known_issues.derive import MISMATCH, issue
from suites.known_issues.findings import finding

_T = "metal:*"
_FP32 = "metal:fp32"
_CONTIGUOUS = r"are not contiguous: the runtime reads them as if they were \[defect\]"

METAL: list[KnownIssue] = [
    # Kernels of the runtime
    issue(_FP32, "convolution/2d", op="convolution", error=_CONTIGUOUS),
    issue(_FP32, "opinfo/addmm-decomposed/float32_1", target=_T, op="addmm|linear|topk|mm|bmm",
          error=_CONTIGUOUS),
    issue(_FP32, "mm/transposed_left", op="*"),
    issue("metal:bf16", "index_add/dim0", op="index_add", error="missing fallback kernels"),
    # Inductor: no code, or wrong code
    issue(_FP32, "sinh/2d", error="InductorError: NotImplementedError",
          op="sinh|cosh|asinh|acosh|logical_xor"),
    issue(_FP32, "mm/plus_number", error="list index out of range|empty_strided",
          op="addmm|add|mm|linear|matmul"),
    issue(_FP32, "expm1/near_zero", target=_T, op="expm1|elu|celu|selu"),
    issue(_FP32, "log1p/near_zero", target=_T, op="log1p|softplus|log_sigmoid*"),
    issue(_FP32, "opinfo/max_pool3d/float32_3", op="max_pool3d", arguments="dim order"),
    issue(_FP32, "floor_divide/metal_dynamic_by_rows", op="div|floordiv", error="declared",
          target=_T),
    issue(_FP32, "qwen3_moe/dynamic", target=_T, error="assert_size_stride|refuses .*declared",
          op="*", program="split_with_sizes"),
    issue(_FP32, "amax/metal_dynamic_into_buffer"),
    issue("metal:bf16", "scatter_add/repeated_indices", error=r"writes \w+\[\d+\], which has",
          op="scatter_add|index_add|index_put|scatter_reduce"),
    issue(_FP32, "upstream/floor_divide/edge_cases_2", target=_T, op="div",
          error="got -?inf, expected nan"),
    finding(
        "Inductor treats a buffer of one element as a constant",
        "two elements, or `torch._inductor.config.joint_graph_constant_folding = False`",
        target=_T, stage="compare", outcome=MISMATCH, op="add|sub|mul|div|copy",
        arguments=r"float32\[1?\] written", error=r"call [1-9]",
    ),
    # Modules with which torchao replaces layers
    issue("metal:int4", "linear/int4_second_columns", error="AssertionError",
          op="linear*|_linear*", frame="mps_op_lib"),
    issue("metal:int4", "linear/int4_1d", error="AssertionError", op="linear*",
          frame="quant_api"),
    issue("metal:int4", "t5/tiny",
          error="'UIntxWeightOnlyQuantizedLinear' object has no attribute"),
    issue("tosa:mxfp8_e4m3", "mamba/tiny", target="tosa:mxfp*",
          error="'MXFPLinearOp' object has no attribute"),
    issue("tosa:mxfp8_e4m3", "mobilenet_v2/tiny", target="tosa:mxfp*",
          error="'MXFPConv2dOp' object has no attribute"),
]  # fmt: skip
