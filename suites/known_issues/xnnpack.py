"""Issues of XNNPACK's quantizer, partitioner, passes and microkernels."""

from __future__ import annotations

from harness import KnownIssue
from suites.known_issues.derive import MISMATCH, issue
from suites.known_issues.findings import finding

_T = "xnnpack:*"
_FP32, _INT8 = "xnnpack:fp32", "xnnpack:int8"

_NO_VECTOR = r"\w+\[(1?|[^];]*,[^];]*)\]"

XNNPACK: list[KnownIssue] = [
    # Quantizer
    issue(
        _INT8,
        "bert/tiny",
        target=_T,
        op="index|index_put|gather|embedding|index_select",
        arguments=r"float32\[",
        error="tensors used as indices must be long|expected .*(Long|Int)|dtype int64|IndexError",
    ),
    issue(_INT8, "int_shared/first_token", target=_T, error="histogram_cpu.*(Long|Int)",
          op="*", program="cat|stack"),
    issue(_INT8, "rt_detr/night", target=_T),
    # Partitioner and passes
    issue(_FP32, "prelu/shared", op="prelu|max_pool2d"),
    issue(_FP32, "convolution/2d_channels_last_model",
          error=r"Expected \S+ to be NCHW in channels last reshape pass", op="convolution"),
    # Only behind a dequantize.
    finding(
        "XNNPACK permutes results of quantized operators on channels-last inputs",
        "`x.contiguous()` when the model is exported and when it is run",
        target="xnnpack:int*", stage="compare", outcome=MISMATCH, error="as if permuted by",
        arguments="channels-last",
    ),
    issue(_INT8, "int_moved/rows_into_cat", target="xnnpack:int*", op="*",
          error="Failed to create static transpose node"),
    issue(_INT8, "int_add/channels_last", target="xnnpack:int*", op="*",
          error="returned|failed with error 0x10", arguments="channels-last"),
    issue(_INT8, "int_add/number_that_is_a_sum", target="xnnpack:int*",
          frame="channels_last_tagged_reshape"),
    issue(_INT8, "half_int8/convolution", target="xnnpack:int*", op="*", stage="lower",
          error="of a delegate is fp32 .* and float16 in the program"),
    finding(
        "XNNPACK cannot lower a clamp whose bound is a bool",
        "`max=1.0`",
        target=_T, stage="lower", op="clamp", arguments=r"\b(True|False)\b", error="flatc",
    ),
    finding(
        "XNNPACK cannot lower a value that leaves together with its clone",
        "`self.dropout(features) * 1.0`",
        target=_T, stage="lower", op="*",
        error="Output node 'aten_[^']*' is already in the inputs",
    ),
    finding(
        "XNNPACK cannot lower a slice from before the first element",
        "`x[:, max(-7, -x.shape[1]) : -3]`",
        target=_T, stage="lower", op="slice", arguments=r"-\d", error="flatc",
    ),
    issue(_FP32, "opinfo/permute/float32_0", op="permute", arguments=r"\w\[\]"),
    finding(
        "XNNPACK gives the weight of a conv1d a fourth dimension for all readers",
        "a `conv2d` of `x.unsqueeze(-1)` and `weight.unsqueeze(-1)`",
        target=_T, stage="run", op="*", program="conv1d|convolution",
        error="Failed to retrieve dim order from tensor",
    ),
    # Values that the delegate computes
    issue(_FP32, "gelu/tanh", op="gelu", arguments="'tanh'"),
    issue(_FP32, "opinfo/interpolate-bilinear/float32_1", op="upsample_bilinear2d",
          arguments=r"\[\d+\.\d*[1-9]"),
    finding(
        "XNNPACK reads a convolution's weight in the layout of another reader",
        "a second parameter with a copy of the weight",
        target=_T, stage="compare", outcome=MISMATCH, op="mul|conv*|view|mm|add",
        arguments="shared", program="conv*",
    ),
    finding(
        "XNNPACK ignores the factors of an addmm",
        "`torch.mm(x, self.weight) * 3 + self.bias * 10`",
        target=_T, stage="compare", outcome=MISMATCH, op="addmm", arguments="alpha|beta",
        delegated=True,
    ),
    *(
        finding(
            "XNNPACK takes any bias for a vector over the features",
            "`torch.nn.functional.linear(x, self.weight) + self.bias`",
            target=_T, stage="compare", outcome=MISMATCH, op=op, arguments=before + _NO_VECTOR,
            delegated=True,
        )
        for op, before in (("linear", "^[^;]*; [^;]*; "), ("addmm", "^"))
    ),
    issue(_FP32, "_softmax/behind_convolution", target=_T, op="_softmax|softmax",
          program="convolution|conv2d|conv1d|max_pool2d*|mean"),
    issue(_FP32, "norm_behind/conv2d_twice", target=_T, op="batch_norm", program="batch_norm",
          calls=2),
    issue(_FP32, "norm_behind/linear_3d", target=_T, op="batch_norm", program="linear|mm|addmm"),
    issue(_FP32, "relu/behind_relu6_of_product", target=_T, op="relu|hardtanh|relu6",
          program="relu|hardtanh|relu6"),
    issue(_FP32, "maximum/nan_wins", op="maximum|minimum", error="expected nan"),
    issue(_FP32, "sqrt/special_values", op="sqrt", error="got nan, expected inf"),
    issue(_FP32, "rsqrt/special_values", op="rsqrt", error="got nan, expected inf"),
    issue(_FP32, "log/special_values", op="log", error="expected inf"),
    issue(_FP32, "upstream/exp/edge_cases_1", target=_T, op="exp", error="expected nan"),
    issue(_FP32, "prequantized/int8_rows", target="xnnpack:fp*|xnnpack:bf16|xnnpack:int4*",
          op="mul|dequantize_affine",
          program="linear|mm|addmm"),
    issue("xnnpack:int8+layer_types", "float_island/scaled", target="xnnpack:int8*"),
    issue(_INT8, "int_shared/sums_of_floats_and_integers", target="xnnpack:int8*",
          op="add|mul", error="dtype float32, expected int"),
    issue(_INT8, "int_linear/one_layer_twice", target="xnnpack:int8*",
          op="linear|addmm|convolution",
          arguments="shared"),
    issue(_INT8, "int_conv2d/one_layer_twice", target="xnnpack:int8*",
          op="conv1d|conv2d|convolution"),
    issue(_INT8, "gemma3/tiny", target=_T, op="slice|cat|neg|view",
          error="Failed to create static (slice|constant_pad|reshape) node"),
    *(
        finding(
            "XNNPACK takes a float conv1d beside quantized operators for a quantized one",
            "a `Conv2d` with a kernel of height 1",
            target="xnnpack:int8*", stage=stage, op="conv1d|convolution", error=error,
        )
        for stage, error in (
            ("lower", "Weight and Input should both be quantized"),
            ("run", "Failed to create convolution node"),
        )
    ),
    issue(_INT8, "int_shared/logits_and_sigmoid", target="xnnpack:int8*", program="convolution",
          error="Attempted to resize a static tensor"),
    issue(_INT8, "int_shared/logits_and_sigmoid", target="xnnpack:int8*", program="convolution",
          stage="compare", outcome=MISMATCH, error="as if permuted by .0, 3, 1, 2"),
    issue(_INT8, "int_shared/relu6_beside_output", target="xnnpack:int8*",
          op="relu6|clamp|hardtanh|type_as|to|add|mul|sub|cat|slice",
          error="looks 0 everywhere"),
    issue(_INT8, "int_pool/max_then_relu6", target="xnnpack:int8*",
          op="relu6|clamp|hardtanh", program="max_pool2d"),
]  # fmt: skip
