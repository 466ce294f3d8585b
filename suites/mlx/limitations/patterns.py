"""Limitations of MLX's patterns, which fuse several nodes, and of its own operators."""

from __future__ import annotations

from harness import Limitation, Status

_ALL = "mlx:*"
_SOURCE = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/mlx/"
_OPS = _SOURCE + "ops.py"
_PASSES = _SOURCE + "passes.py"
_PATTERNS = _SOURCE + "patterns.py"
_WRONG = "elements exceed the bound"

PATTERNS: list[Limitation] = [
    # RMS norms. In half precision the epsilon of these is converted first, which hides them.
    Limitation(
        target="mlx:fp32",
        case="rms_norm/mean_over_other_dim|rms_norm/mean_over_two_dims|"
        "rms_norm/mean_without_keepdim",
        reason="RMSNormMatch.maybe_create (passes.py) does not check the dimensions of the mean "
        "or keepdim. It turns a mean over any dimension into an RMS norm over the last one, "
        "silently. Workaround: permute so that the dimension is the last, or lower without "
        "`FuseRMSNormPass`.",
        link=_PASSES,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="mlx:fp32",
        case="rms_norm/mean_of_other_tensor",
        reason="RMSNormMatch.maybe_create (passes.py) does not check that the tensor it scales is "
        "the tensor whose mean was taken, so it also fuses products that are no RMS norm. "
        "Workaround: lower without `FuseRMSNormPass`.",
        link=_PASSES,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="mlx:fp32",
        case="rms_norm/weight_for_all|rms_norm/weight_is_number|rms_norm/weight_for_each",
        reason="FuseRMSNormPass (passes.py) takes any factor of the norm as its weight. A factor "
        "that does not have the shape of the last dimension breaks a later pass. Workaround: "
        "lower without `FuseRMSNormPass`.",
        link=_PASSES,
        stage="to_executorch",
        error="Expected weight to be of same shape as normalized_shape",
    ),
    Limitation(
        target="mlx:bf16|mlx:fp16",
        case="rms_norm/result_stays_float32",
        reason="RMSNormMatch.maybe_create (passes.py) removes a conversion of the input to "
        "float32 even if the model does not convert back, so the result has the dtype of the "
        "input instead of float32. Workaround: lower without `FuseRMSNormPass`.",
        link=_PASSES,
        stage="compare",
        error="dtype bfloat16, expected float32",
        outcome=Status.MISMATCH,
    ),
    # Attention
    Limitation(
        target=_ALL,
        case="scaled_dot_product_attention/repeated_keys_are_values",
        reason="SDPAHandler lists the nodes that repeat the keys twice where they repeat the "
        "values, too, and ProgramBuilder counts their reads twice. Workaround: the keys as they "
        "are, with `enable_gqa=True`.",
        link=_PATTERNS,
        stage="lower",
        error="but it has no remaining reads",
    ),
    Limitation(
        target=_ALL,
        case="scaled_dot_product_attention/repeated_keys_masked",
        reason="SDPAHandler._try_unwrap_repeat_kv (patterns.py) removes an expand before "
        "attention without checking the reshape after it. Here the two repeat the keys, and "
        "without them the mask has twice as many columns as there are keys.",
        link=_PATTERNS,
        stage="run",
        error="(SdpaNode): [broadcast_shapes]",
    ),
    Limitation(
        target=_ALL,
        case="scaled_dot_product_attention/repeated_keys_causal",
        reason="SDPAHandler._try_unwrap_repeat_kv (patterns.py) removes an expand before "
        "attention without checking the reshape after it. Here the two repeat the keys, and "
        "the causal mask is then one of half as many keys.",
        link=_PATTERNS,
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="scaled_dot_product_attention/repeated_batch",
        reason="SDPAHandler._try_unwrap_repeat_kv (patterns.py) removes an expand that also "
        "repeats the batch. _kernel_can_compute compares the batch sizes before it is removed, "
        "and mlx refuses the sizes that remain.",
        link=_PATTERNS,
        stage="run",
        error="mismatching batch dimension",
    ),
    Limitation(
        target=_ALL,
        case="scaled_dot_product_attention/bool_mask_empty_row|"
        "scaled_dot_product_attention/additive_mask_empty_row",
        reason="ATen returns zeros for a query that may attend to no key. SDPAHandler "
        "(patterns.py) drops the nodes that implement this, and mlx returns the mean of all "
        "values for a bool mask and NaN for a mask of -inf.",
        link=_PATTERNS,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    # Rotary embedding
    Limitation(
        target=_ALL,
        case="rope/position_is_literal",
        reason="_rope_handler (ops.py) refuses a position that is a Python number, although the "
        "schema of mlx::rope accepts one. No other implementation of mlx::rope exists.",
        link=_OPS,
        stage="to_executorch",
        error="Missing out variants: {'mlx::rope'}",
        shown_as=Status.UNSUPPORTED,
    ),
    Limitation(
        target=_ALL,
        case="rope/freqs_a_row_each",
        reason="The schema of mlx::rope (custom_ops.py) takes a row of angles for each position; "
        "mlx::core::fast::rope takes one vector of frequencies.",
        link=_SOURCE + "custom_ops.py",
        stage="run",
        error="freqs must be one dimensional",
    ),
    # Experts
    Limitation(
        target=_ALL,
        case="gather_mm/choice_on_both_sides",
        reason="The eager implementation of mlx::gather_mm (custom_ops.py) ignores lhs_indices; "
        "the delegate uses them to choose the left matrices.",
        link=_SOURCE + "custom_ops.py",
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="moe/dynamic_sizes_between",
        reason="_moe_gather_inputs_handler (ops.py) keeps the temporary slot of its condition for "
        "later operators, but the slot is released when the handler ends. A size computed in "
        "between overwrites it, and moe_scatter_outputs takes the wrong branch.",
        link=_OPS,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    # Sampling
    Limitation(
        target=_ALL,
        case="sample/*",
        reason="_sample_handler (ops.py) reads the result of a comparison with ItemIntNode. "
        "exec_item_int (runtime/MLXInterpreter.h) reads four bytes of that one-byte tensor, so "
        "the branch depends on the memory after it. Workaround: sample outside the program, from "
        "its logits.",
        link=_OPS,
        stage="run",
        error="the runtime reads 4 bytes of a mlx.core.bool",
    ),
]
