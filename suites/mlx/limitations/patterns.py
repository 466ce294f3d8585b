"""Limitations in what the lowering recognises, and in upstream's own operators."""

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
        reason="RMSNormMatch.maybe_create (passes.py) does not look at the dimensions of the mean "
        "nor at keepdim: every mean is taken for one over the last dimension.",
        link=_PASSES,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="mlx:fp32",
        case="rms_norm/mean_of_other_tensor",
        reason="RMSNormMatch.maybe_create (passes.py) follows the second operand of the product "
        "and never compares the first with what the mean is taken of.",
        link=_PASSES,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="mlx:fp32",
        case="rms_norm/weight_for_all|rms_norm/weight_is_number|rms_norm/weight_for_each",
        reason="FuseRMSNormPass (passes.py) takes whatever the norm is multiplied by for its "
        "weight. One that is not of the last dimension's shape breaks a later pass.",
        link=_PASSES,
        stage="to_executorch",
        error="Expected weight to be of same shape as normalized_shape",
    ),
    Limitation(
        target="mlx:bf16|mlx:fp16",
        case="rms_norm/result_stays_float32",
        reason="RMSNormMatch.maybe_create (passes.py) absorbs the conversion of the input to "
        "float32 whether or not there is one back: the result has the input's dtype.",
        link=_PASSES,
        stage="compare",
        error="dtype bfloat16, expected float32",
        outcome=Status.MISMATCH,
    ),
    # Attention
    Limitation(
        target=_ALL,
        case="scaled_dot_product_attention/repeated_keys_masked",
        reason="SDPAHandler._try_unwrap_repeat_kv (patterns.py) drops an expansion whatever the "
        "reshape behind it makes of it. Here it repeats the keys, and the mask has twice as many "
        "columns as the keys that are left.",
        link=_PATTERNS,
        stage="run",
        error="(SdpaNode): [broadcast_shapes]",
    ),
    Limitation(
        target=_ALL,
        case="scaled_dot_product_attention/repeated_batch",
        reason="SDPAHandler._try_unwrap_repeat_kv (patterns.py) drops an expansion whatever else "
        "it expands; _kernel_can_compute compares the batch sizes from before.",
        link=_PATTERNS,
        stage="run",
        error="mismatching batch dimension",
    ),
    Limitation(
        target=_ALL,
        case="scaled_dot_product_attention/bool_mask_empty_row|"
        "scaled_dot_product_attention/additive_mask_empty_row",
        reason="ATen gives zeros for a query that may attend to nothing. SDPAHandler "
        "(patterns.py) leaves out what the decomposition does for that, and mlx's attention "
        "gives the mean of all values for a bool mask and NaN for one of infinities.",
        link=_PATTERNS,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    # Rotary embedding
    Limitation(
        target=_ALL,
        case="rope/position_is_literal",
        reason="_rope_handler (ops.py) refuses a position that is a Python number, although "
        "mlx::rope is declared to take one; the operator has no other implementation.",
        link=_OPS,
        stage="to_executorch",
        error="Missing out variants: {'mlx::rope'}",
        shown_as=Status.UNSUPPORTED,
    ),
    Limitation(
        target=_ALL,
        case="rope/freqs_a_row_each",
        reason="mlx::rope is declared to take a row of angles for each position (custom_ops.py), "
        "mlx::core::fast::rope takes one vector of frequencies.",
        link=_SOURCE + "custom_ops.py",
        stage="run",
        error="freqs must be one dimensional",
    ),
    # Experts
    Limitation(
        target=_ALL,
        case="gather_mm/choice_on_both_sides",
        reason="The eager mlx::gather_mm (custom_ops.py) ignores lhs_indices, the instruction "
        "picks the left matrices by them.",
        link=_SOURCE + "custom_ops.py",
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="moe/dynamic_sizes_between",
        reason="_moe_gather_inputs_handler (ops.py) remembers the value slot of its condition "
        "for the operators that follow, but the slot is temporary: its number is given away "
        "when the handler ends. A size computed in between overwrites it, and "
        "moe_scatter_outputs takes the wrong branch.",
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
        "exec_item_int (runtime/MLXInterpreter.h) reads four bytes of that one-byte tensor: the "
        "branch depends on what lies behind it.",
        link=_OPS,
        stage="run",
        error="the runtime reads 4 bytes of a mlx.core.bool",
    ),
]
