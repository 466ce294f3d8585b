"""Issues of MLX's handlers, patterns and passes."""

from __future__ import annotations

from harness import KnownIssue
from suites.known_issues.derive import MISMATCH, issue
from suites.known_issues.findings import finding

_T = "mlx:*"
_FP32 = "mlx:fp32"
_INT = r"^u?int\d+\["

MLX: list[KnownIssue] = [
    # Passes
    finding(
        "MLX drops casts that round",
        "`torch.trunc` in place of the casts, or lower without the pass",
        target=_T, stage="compare", outcome=MISMATCH, op="to|_to_copy|type_as|long|int|add|mul",
        arguments=r"int(8|16|32|64)\[.*(dtype=)?float|^float.*\bint(8|16|32|64)\b|torch\.int"
        r"|torch\.float32",  # the program may have no cast left
    ),
    finding(
        "Exir's CSE treats 0.0 and -0.0 as one number", "leave the pass out",
        target=_T, stage="compare", outcome=MISMATCH, op="sub|add|div|mul|reciprocal",
        error="got nan, expected -?inf|got -?inf, expected", program="reciprocal|div|atan2",
    ),
    issue("mlx:fp32-passes+cse", "mlx_cse/length_and_number", target=_T, op="sub|sum|ones|full|add",
          error=r"elements.*declared|has \w+:\d = ", program="full|ones|zeros|arange"),
    *(
        finding(
            title, workaround, target=_T, stage="compare", outcome=MISMATCH, op=op, program=program,
            arguments=arguments,
        )
        for title, workaround, op, program, arguments in (
            ("MLX removes a copy of a buffer that is written before the copy is read",
             "`self.kept * 1.0` for the clone", "sub|add|mul|div", "index_copy", "written"),
            ("MLX writes an index_copy into an operand that is read later",
             "`self.kept.copy_(hidden)`, then `self.kept.index_copy_(0, index, value)`",
             "add|sub|mul|div|tanh", "index_copy", ""),
            ("MLX gives a transposed convolution the constant of a convolution",
             "`self.weight * 1.0` in the second layer", "conv*", "conv_transpose*", "shared"),
            ("MLX convolves with the first value of a weight that is written",
             "`self.weight * 1.0`", "conv*", "conv*", "written"),
            ("MLX returns rows where the program says channels-last",
             "`model.to(memory_format=torch.contiguous_format)` before export",
             "conv*|add|sub|mul|div|relu|sigmoid|silu|gelu|tanh|batch_norm", "*",
             "channels-last|dim order"),
        )
    ),
    issue(_FP32, "state/clone_returned", target=_T, op="clone", arguments="written"),
    issue(_FP32, "kv_cache_update/full"),
    issue(_FP32, "kv_cache_update/ring_attended_6_cells", target=_T, error="cannot be broadcast",
          op="arange|full|where|eq|le|lt|ge|gt|mul|add|sub", program="arange|full"),
    finding(
        "MLX removes a slice of dynamic length where the example is full",
        "an example that is shorter than the table",
        target=_T, stage="run", op="add|sub|mul|div", error="cannot be broadcast",
        program="slice|slice_copy",
    ),
    issue(_FP32, "rms_norm/mean_over_other_dim", op="mul|mean|rsqrt", program="rsqrt|rms_norm"),
    issue("mlx:bf16", "rms_norm/result_stays_float32", op="mul|rms_norm|to",
          error="dtype bfloat16, expected float32|dtype float16, expected float32"),
    issue(_FP32, "add/int16_chain", target=_T,
          error=r"has no kernel (.*, )?aten::\w+_([.,]| which)", op="*", arguments="int16"),
    issue(_FP32, "constant_pad_nd/negative_crops", op="pad",
          error=r"Invalid (low|high) padding size"),
    # Handlers: values
    issue(_FP32, "lt/integers_and_fraction",
          op="lt|le|gt|ge|eq|ne|add|sub|mul|div|pow|clamp|maximum"
          "|minimum", arguments=_INT + r".*; -?\d+\.\d*[1-9]|^bool\[.*; -?\d"),
    issue(_FP32, "full/large_integer", op="full|full_like", arguments=r"\d{8,}"),
    issue(_FP32, "arange/from_fraction", op="arange", arguments=r"\d*\.\d*[1-9]"),
    issue("mlx:bf16", "mul/0d_by_number", op="mul|div|add|sub|floor|floor_divide",
          error="dtype float32, expected"),
    issue(_FP32, "argmax/negated", op="neg|sub|mul|add|argmax|argmin|sort|topk",
          arguments=r"^int64",
          program="argmax|argmin|sort|topk"),
    issue(_FP32, "index/separate_leading_slice", op="index", arguments=r"\[None, .*\bNone\b|None"),
    issue(_FP32, "scatter_add/one_of_the_rows", op="scatter_add",
          arguments=r"int64\[(1|.*, 1|1, .*)\]"),
    issue(_FP32, "scatter_add/part_of_the_columns", op="scatter_add",
          error=r"\(ScatterAddNode\)"),
    issue(_FP32, "floor_divide/rest_then_multiplied", op="div", arguments=_INT),
    issue(_FP32, "floor_divide/as_index", op="index|div|gather|embedding", program="div",
          error="indices are mlx.core.float32"),
    issue(_FP32, "full/integers_as_index", op="index|full|gather|embedding", program="full",
          error="indices are mlx.core.float32"),
    issue(_FP32, "sam2/tiny", op="index|upsample*", error="indices are mlx.core.float32"),
    issue(_FP32, "sum/int32_beyond_int32", op="sum|prod|cumsum", arguments=r"^int32\["),
    issue(_FP32, "sort/descending_dim0", op="sort|topk", arguments=r"True|False"),
    issue(_FP32, "rms_norm/no_weight_default_eps", op="rms_norm",
          arguments=r"None|^[^;]*; [^;]*(; \w+\[[^;]*)?$"),
    issue(_FP32, "scaled_dot_product_attention/bool_mask_empty_row",
          op="scaled_dot_product_attention*", arguments=r"bool\["),
    issue(_FP32, "clamp/one_bound_two_dtypes", op="clamp|to|hardtanh", program="clamp|hardtanh",
          calls=2, arguments="float16"),
    issue(_FP32, "upstream/floor_divide/edge_cases_2", target=_T, op="div",
          error="got -?inf, expected nan"),
    issue(_FP32, "state/read_before_put", target=_T, op="mul|add|sub|div", error="call [1-9]",
          arguments="written", program="index_put|scatter"),
    # Handlers: failures
    issue(_FP32, "index/2d_index", op="index|embedding", error=r"\(TakeAlongAxisNode\)"),
    issue(_FP32, "whisper/decoder", op="index|embedding", error=r"\(TakeAlongAxisNode\)"),
    issue(_FP32, "scaled_dot_product_attention/repeated_keys_masked",
          op="scaled_dot_product_attention*|expand|view", error=r"\(SdpaNode\): \[broadcast"),
    issue(_FP32, "scaled_dot_product_attention/repeated_keys_causal", delegated=True,
          op="scaled_dot_product_attention*", arguments="True", program="expand"),
    issue(_FP32, "scaled_dot_product_attention/repeated_batch",
          op="scaled_dot_product_attention*|expand|view", error="mismatching batch dimension"),
    issue(_FP32, "mul/constant_of_two_delegates_twice", error="constant .*has no name", op="*"),
    issue(_FP32, "clamp/below_number", error="Invalid user", op="clamp|slice|sub|add|mul|minimum"
          "|sym_size"),
    issue(_FP32, "copy/before_is_output", error=r"is tagged with .*(delegat|buffer|mutat)",
          op="*"),
    issue(_FP32, "sample/*"),
    issue(_FP32, "rt_detr/night", error="Found unsupported node", op="*sin*|cos|exp|add|mul|div|pow"
          "|arange|to", arguments="float64"),
    issue(_FP32, "unfold/im2col", op="im2col|unfold|upsample_nearest*"),
    issue(_FP32, "slice_scatter/to_the_dynamic_end", op="slice_scatter|slice",
          error="a call returned shape", program="slice_scatter"),
    issue(_FP32, "topk/dynamic", op="topk", error="takes at most|declared"),
    issue("mlx:bf16", "index_put/bool_mask", error="op_index_put", op="index_put"),
    issue(_FP32, "opinfo/cumsum/float32_2", op="cumsum|cumprod",
          error="out of bounds for array with 0 dimensions|out of range for 0"),
]  # fmt: skip
