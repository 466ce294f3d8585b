"""Issues of Arm's quantizer, partitioner and passes, and of undefined behaviour in TOSA."""

from __future__ import annotations

from harness import KnownIssue, Status
from suites.known_issues.derive import MISMATCH, issue
from suites.known_issues.findings import finding

_FP, _INT = "tosa:fp", "tosa:int"
_BOTH = "tosa:*"
_CEIL_DIVISOR = r"; True; (True|False); \d+$"

TOSA: list[KnownIssue] = [
    # Quantizer
    issue(_INT, "_native_batch_norm_legit_no_training/beside_a_reader",
          target="xnnpack:int8*|tosa:int*", error="changed the module", op="*",
          program="batch_norm|_native_batch_norm_legit_no_training"),
    issue(_INT, "state/from_zero", error="changed the module", op="add|sub|mul|div",
          arguments="written|shared"),
    issue(_INT, "cosine_similarity/last_dim", target="tosa:int*", error="changed the module",
          op="cosine_similarity"),
    issue(_INT, "max/indices_alone", target="tosa:int*", error="changed the module", op="max|min"),
    issue(_INT, "_to_copy/beyond_int32_and_back", target="tosa:int*", error="changed the module",
          op="to|add|sub|mul|div", arguments="int64"),
    issue(_INT, "avg_pool2d/ceil_mode_divisor", target="tosa:int*", error="changed the module",
          op="avg_pool2d", arguments=_CEIL_DIVISOR),
    issue(_INT, "state/counter", target="xnnpack:int8*|tosa:int*|cortex_m:*", op="*",
          error="(prepare|convert) changed what it was given", arguments="written"),
    issue(_INT, "state/put", error="doesn't support float.* for MUL", op="index_put|index_copy"),
    issue(_INT, "index_put/accumulate", error="changed the module", op="index_put",
          arguments="True"),
    issue(_INT, "masked_fill/minus_inf", error=r"got -25[56], expected -inf|got 255, expected inf",
          op="masked_fill|where|full|full_like|scaled_dot_product_attention*|add"),
    issue(_INT, "_log_softmax/large_logits", error="looks infinite|got -inf", op="log_softmax"),
    issue(_INT, "var/all", op="var*"),
    issue(_INT, "max/dim_values_and_indices", op="*"),
    issue(_INT, "int_model/lstm_cells", target=_BOTH, op="lstm_cell",
          error="'tuple' object has no attribute 'shape'"),
    finding(
        "HistogramObserver clips values before it compares errors",
        "`MinMaxObserver` for activations",
        target="tosa:int16*", stage="quantize", outcome=Status.FAILED,
        error="rounding the values to its codes makes an error",
    ),
    finding(
        "Arm's 16-bit tables interpolate small values in one segment",
        "`get_symmetric_a16w8_quantization_config(epsilon=2**-20)`",
        target="tosa:int16*", stage="compare", outcome=MISMATCH,
        op="rsqrt|reciprocal|sqrt|log|pow|exp|sigmoid|tanh|gelu|erf|silu",
    ),
    # Running
    issue(_INT, "gather/dim0", error="index_util|Expected dtype int64", op="gather|scatter*"),
    issue(_INT, "int_conv2d/same_even_kernel_relu", error=r"bytes int8\(.*for a planned tensor",
          op="pad|relu"),
    issue(_FP, "opinfo/native_group_norm/float32_2", target=_BOTH,
          error="for a planned tensor of", op="group_norm"),
    issue(_FP, "opinfo/pad-circular/float32_0", target=_BOTH, error="for a planned tensor of",
          op="pad|slice|cat|copy", arguments=r"-\d", program="pad"),
    *(
        finding(
            "Arm takes a slice from before the first element for one from the end",
            "`x[:, max(-7, -x.shape[1]) : -3]`",
            target=_BOTH, stage=stage, outcome=outcome, op="slice", error=error,
            arguments=r"-\d",
        )
        for stage, outcome, error in (
            ("compare", MISMATCH, ""),
            ("lower", Status.FAILED, r"Expected start \+ size values between"),
            ("run", Status.FAILED, "for a planned tensor of"),
        )
    ),
    issue(_FP, "slice_copy/to_empty", target=_BOTH, op="slice",
          error=r"Expected start \+ size values between"),
    issue(_FP, "whisper/encoder", target=_BOTH, error="for a planned tensor of",
          op="embedding|arange|full|index_select", arguments="int64"),
    # Lowering
    issue(_FP, "amax/all", target=_BOTH, error="StopIteration",
          op="amax|amin|any|mean|sum|select|view|squeeze|index|one_hot|max|min|prod|all|reshape"
          "|RESHAPE|CONST_SHAPE"),
    issue(_FP, "convolution/2d_weight_is_input", target=_BOTH, error="unsupported param type",
          op="convolution|linear|CONV2D|DEPTHWISE_CONV2D"),
    issue(_FP, "opinfo/log_softmax/float32_1", target=_BOTH, error="Unknown operator",
          op="softmax|log_softmax|amax", arguments=r"^\w+\[\]"),
    issue(_FP, "opinfo/cumsum/float32_2", target=_BOTH, error="modulo by zero",
          op="cumsum|gather|softmax|log_softmax|sum", arguments=r"^\w+\[\]"),
    issue(_FP, "opinfo/clamp/float32_0", target=_BOTH, error="Expected matching dtypes",
          op="clamp|maximum|minimum|MINIMUM|MAXIMUM"),
    issue(_FP, "opinfo/batch_norm/float32_1", target=_BOTH, error="data must be a sequence",
          op="batch_norm"),
    issue(_FP, "norm_behind/conv2d_twice", target=_BOTH, op="batch_norm", program="batch_norm",
          calls=2),
    issue(_FP, "_native_batch_norm_legit_no_training/1d", target=_BOTH, op="batch_norm|convolution",
          error=r"Expected \d-dimensional input for \d-dimensional weight"),
    issue(_FP, "opinfo/adaptive_avg_pool1d/float32_1", target=_BOTH,
          error="not enough values", op="*adaptive_avg_pool*|avg_pool*|mean",
          frame="adaptive"),
    issue(_FP, "opinfo/avg_pool2d/float32_2", target=_BOTH, error=r"not enough values.*expected 2",
          op="avg_pool*", frame="avg_pool"),
    issue(_FP, "avg_pool2d/unbatched", target=_BOTH, stage=None, op="avg_pool*", frame="avg_pool",
          error=r"not enough values.*expected 4"),
    issue(_FP, "sqrt/special_values", target=_FP, error="TOSA_UNPREDICTABLE", op="sqrt"),
    issue(_FP, "upstream/pow/edge_cases_0", target=_FP, error="TOSA_UNPREDICTABLE", op="pow"),
    issue(_FP, "logical_and/bool", target=_BOTH, error="Invalid TOSA graph",
          op="logical_and|logical_or"),
    issue(_FP, "prequantized/intx4_groups", target=_BOTH, error="unsupported param type",
          op="linear|mm|addmm|matmul|dequantize_affine"),
    # Values that the delegate computes
    issue(_INT, "elu/two_of_one_tensor", target="tosa:int*", op="elu|celu|selu",
          program="elu|celu|selu", calls=2),
    issue(_FP, "avg_pool2d/ceil_mode_divisor", op="avg_pool2d", arguments=_CEIL_DIVISOR),
    issue(_FP, "full_like/to_int32", op="full_like|zeros_like|ones_like", arguments="dtype="),
    issue(_FP, "amax/empty_dims_keepdim", op="div|mul|sub|add", program="amax|amin",
          arguments=r"^(?=.*\[\d+, \d).*float32\[1(, 1)*\](;|$)"),
    issue(_FP, "addmm/beta_zero_ignores_nan", op="addmm", error="got nan|got -?inf",
          arguments="beta=0(;|$)"),
    issue(_FP, "asin/2d", target=_FP, op="asin|acos"),
    issue(_FP, "atan/saturated", target=_FP, op="atan", error="got nan"),
    issue(_FP, "atan/2d", target=_FP, op="atan|atan2"),
    issue(_FP, "atanh/near_zero", target=_FP, op="atanh"),
    issue(_FP, "log1p/3d", target=_FP, op="log1p"),
    issue(_FP, "upstream/logsigmoid/dtype", target=_FP, op="log_sigmoid*|softplus"),
    issue(_FP, "expm1/3d", target=_FP, op="expm1|elu|celu|selu"),
    issue(_FP, "opinfo/asinh/float32_0", target=_FP, op="asinh"),
    issue(_FP, "sinh/near_zero", target=_FP, op="sinh"),
    issue(_FP, "opinfo/tanh/float32_0", target=_FP, op="tanh"),
    issue(_FP, "opinfo/interpolate-bilinear/float32_1", target=_BOTH, op="upsample_bilinear2d",
          arguments=r"\[\d+\.\d*[1-9]"),
    issue(_FP, "round/halves_to_even", target=_FP, op="round", error="elements",
          arguments="^float"),
    issue(_FP, "_log_softmax/large_logits", target=_FP, op="log_softmax",
          error="got -inf|infinite"),
    issue(_FP, "relu/inf_and_nan", target=_FP, op="relu|clamp|hardtanh", error="expected inf"),
    issue(_FP, "pow/zero_exponent", target=_FP, op="pow", error="got nan, expected 1"),
    issue(_FP, "div/floor_int32_exact", target=_FP, op="div", arguments=r"^int.*'floor'"),
    issue(_FP, "_to_copy/fp32_to_int8", target=_FP, op="to", arguments=r"^float.*int(8|16)"),
    issue(_INT, "_to_copy/fp32_to_fp16_overflows", target=_INT, op="to", arguments="float16"),
    issue(_FP, "upstream/floor_divide/edge_cases_2", target=_FP, op="div",
          error="got -?inf, expected nan"),
    *(
        finding(
            "Arm's TOSA passes drop a transposition before a difference from a number",
            "`-(x.T - 0.5)`",
            target=_BOTH, stage=stage, outcome=outcome, op="rsub|sub|lt|le|gt|ge", error=error,
            arguments="dim order",
        )
        for stage, outcome, error in (
            ("compare", MISMATCH, "transposed|permuted"),  # a square tensor
            ("run", Status.FAILED, "for a planned tensor of"),
        )
    ),
    finding(
        "Arm drops a relu whose result shares its zero point",
        "`torch.relu(y + 0.0)`",
        target=_INT, stage="compare", outcome=MISMATCH, op="relu|hardtanh",
        error="exceed the bound|codes are not", since="1.5.0",
    ),
    finding(
        "Arm's quantizer negates values without their scale",
        "`x * -1`",
        target=_INT, stage="compare", outcome=MISMATCH, op="neg", error="exceed the bound",
    ),
    finding(
        "Arm's quantizer clips the image of grid_sample at -1 and 1",
        "`F.grid_sample(x / limit, grid) * limit`",
        target=_INT, stage="quantize", op="grid_sampler*",
        error="rounding the values to its codes makes an error",
    ),
    finding(
        "Arm's TOSA reads the wrong part of a joint projection for several batches",
        "bring the part to the front first, `qkv.permute(2, 0, 3, 4, 1)[1]`",
        target=_BOTH, stage="compare", outcome=MISMATCH, op="matmul|bmm|expand",
        arguments=r"float32\[(?!1,)\d+, .*dim order",
    ),
]  # fmt: skip
