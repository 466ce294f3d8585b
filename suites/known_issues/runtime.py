"""Issues of the export flow and of the runtime's kernels, on any backend's fallback nodes."""

from __future__ import annotations

from harness import KnownIssue, Status
from suites.known_issues.derive import MISMATCH, issue
from suites.known_issues.findings import finding

# The kernels are the same on every target that executes natively.
_NATIVE = "portable:*|xnnpack:*|tosa:*|mlx:*"

_P, _X = "portable:fp32", "xnnpack:fp32"

RUNTIME: list[KnownIssue] = [
    # Export flow
    issue(
        _P,
        "scaled_dot_product_attention/flattened",
        error="Cannot view a tensor",
        op="view|_unsafe_view|reshape|flatten|scaled_dot_product_attention*|transpose|permute",
        target="portable:*|xnnpack:*|tosa:*|null:*|metal:*",
    ),
    finding(
        "The result of a conditional is overwritten by the next one",
        "clone the first result before the second conditional, outside of the branch",
        stage="compare",
        outcome=MISMATCH,
        op="cond",
        program="cond",
        calls=2,
    ),
    finding(
        "Exir gives pictures of batch size 1 a layout that no kernel accepts",
        "`x.contiguous()` when the model is exported and when it is run",
        target=_NATIVE,
        stage="run",
        # A batch of one has the stride of a column: (C, 1, C * W, C).
        error=r"has shape \[1, (\d+), \d+, \d+\] and strides \[\1, 1, \d+, \1\].*the cell passes",
        op="*",
    ),
    issue(
        _P,
        "qwen3_moe/dynamic",
        target=_NATIVE,
        error="Attempted to resize a static tensor|refuses .* \\(declared: ",
        op="*",
        program="split_with_sizes",
    ),
    issue("null:eager", "state/from_one", op="add|mul|sub|div", error="call 0",
          arguments="written"),
    finding(
        "Exir drops a write to a parameter",
        "register the tensor as a buffer",
        target="portable:*|xnnpack:*", stage="compare", outcome=MISMATCH, op="*",
        error=r"\d outputs, expected \d",
    ),
    # Kernels that end the process, or refuse
    issue(
        _P,
        "opinfo/sum/float32_0",
        target="*",
        error=r"assert failed \(dim < dim_|SIGABRT",
        op="sum",
        arguments=r"^\w+\[\]",
    ),
    issue(
        _P,
        "convolution/3d",
        target="*",
        error=r"Expect input tensor to be 3-D or 4-D",
        op="convolution",
    ),
    issue(_P, "constant_pad_nd/negative_crops", target=_NATIVE,
          error="Padding values must be non-negative", op="pad",
          arguments="^(?!.*PythonMod)"),
    issue(_P, "mul/channels_last_mixed", target=_NATIVE,
          error=r"have different dim orders.*op_(add|mul|sub|div)", op="add|mul|sub|div"),
    issue(_P, "slice_copy/channels_last", target=_NATIVE,
          error=r"dim.order.*op_(permute|slice)", op="permute|slice", arguments="channels-last"),
    issue(_P, "full_like/channels_last", target=_NATIVE,
          error=r"default.dim.order|default dim order|op_(full_like|native_group_norm)",
          op="full_like|group_norm", arguments="channels-last"),
    issue(_P, "_native_batch_norm_legit_no_training/2d_channels_last", target=_NATIVE,
          error=r"contiguous.*op_native_batch_norm|op_native_batch_norm", op="batch_norm",
          arguments="channels-last"),
    issue(_P, "opinfo/log_softmax-with_dtype/float32_0", target=_NATIVE,
          error="op_log_softmax", op="log_softmax", arguments="float64"),
    issue(_P, "opinfo/gather/bfloat16_0", target=_NATIVE,
          error="index_util", op="gather|scatter*", arguments=r"int32\[|uint8\["),
    issue(_P, "opinfo/cumsum/float32_2", target=_NATIVE,
          error="dim_is_valid|check_cumsum_args", op="cumsum", arguments=r"^\w+\[\]"),
    # Kernels that compute a wrong value
    issue(_P, "cat/channels_last", target=_NATIVE, op="cat|pad", arguments="channels-last",
          delegated=False),
    issue(_P, "cat/promotes", target=_NATIVE, op="cat", delegated=False,
          arguments=r"float32.*\bint32|\bint32.*float32|float64.*int64|int64.*float64"
          r"|float16.*int16|int16.*float16"),
    issue(_P, "remainder/int64", target=_NATIVE, op="remainder", delegated=False,
          arguments=r"^int\d+\[|^uint8\["),
    finding(
        "Native remainder has the sign of C's % and float32 precision",
        '`a - b * torch.div(a, b, rounding_mode="floor")` for integers',
        target=_NATIVE, stage="compare", outcome=MISMATCH, op="remainder", delegated=False,
        arguments=r"^float64\[",
    ),
    # A quotient of zeros is an infinity for NaN, by another defect.
    issue(_P, "div/floor_of_any", target=_NATIVE, op="div", delegated=False,
          arguments=r"float.*'floor'|^float\d+\[[^']*$",
          error=r"^(?!.*expected -?nan).*elements exceed"),
    issue(_P, "div/floor_by_zero", target=_NATIVE, op="div", delegated=False,
          arguments=r"float.*'floor'", error="got -?inf, expected -?nan"),
    issue(_P, "nonzero/2d", target=_NATIVE, op="nonzero", delegated=False,
          arguments=r"^\w+\[[^\],]+, "),
    issue(_P, "native_layer_norm/large_mean", target=_NATIVE, op="layer_norm", delegated=False,
          arguments=r"^float(32|64)\["),
    finding(
        "LayerNorm in 16 bits is wrong for rows of 256 elements and more",
        "a float layer with `.float()` before it and `.half()` behind it",
        target=_NATIVE, stage="compare", outcome=Status.MISMATCH, op="layer_norm", delegated=False,
        arguments=r"^b?float16\[",
    ),
    finding(
        "Native add scales the wrong operand where the first has one element",
        "multiply first",
        target=_NATIVE, stage="compare", outcome=Status.MISMATCH, op="add", delegated=False,
        arguments=r"^\w+\[(1(, 1)*)?\]; .*alpha=",
    ),
    issue(_P, "sub/fp64_number", target=_NATIVE, op="add|sub|mul|div",
          arguments=r"^float64\[[^;]*; -?\d"),
    issue(_P, "add/int32_scalar_number", op="add|sub|mul|div",
          error=r"dtype (int64, expected u?int|float32, expected b?float16)",
          arguments=r"^\w+\[\]; -?\d"),
    issue(_P, "cat/empty_decides_dtype", op="cat", error=r"dtype \w+, expected",
          arguments=r"\w+\[0\]"),
    issue(_P, "constant_pad_nd/dynamic_to_multiple", target=_NATIVE, op="pad",
          error="Padding values must be non-negative", arguments=r"PythonMod\(-"),
    issue(_P, "unsqueeze_copy/channels_last", target=_NATIVE, op="unsqueeze", delegated=False,
          arguments="channels-last"),
    issue(_P, "pow/int64_large", target=_NATIVE, op="pow", delegated=False,
          arguments=r"^(out=)?u?int\d+\["),
    issue(_P, "addmm/beta_zero_ignores_nan", target=_NATIVE, op="addmm", delegated=False,
          arguments=r"beta=0\b", error="looks NaN|got -?nan"),
]  # fmt: skip
