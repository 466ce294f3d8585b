"""Limitations of passes: properties of a program that a pass does not preserve."""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import missing_feature

_SOURCE = "https://github.com/pytorch/executorch/blob/v1.5.1/"
_REINPLACE = _SOURCE + "exir/passes/reinplace.py"
_ARM = _SOURCE + "backends/arm/_passes/"


def _absent(target: str, case: str, name: str) -> Limitation:
    return missing_feature(target, case, name, stage="lower", error=f":{name} (")


LIMITATIONS = [
    _absent(
        "mlx:fp32-passes+collapse_view_copy",
        "mlx_collapse_view_copy/*",
        "CollapseViewCopyPass",
    ),
    _absent(
        "mlx:fp32-passes+fuse_rms_norm+canonicalize_permute+collapse_view_copy+collapse_permute"
        "+collapse_dtype_conversion+remove_no_ops+cse+mlx_reinplace",
        "mlx_in_order/*",
        "CollapseViewCopyPass",
    ),
    _absent("portable:fp32+enforce_contiguous", "contiguous/*", "EnforceContiguousDimOrder"),
    Limitation(
        target="portable:fp32+cse|mlx:fp32-passes+cse",
        case="cse/zeros|mlx_cse/zeros",
        reason="CSEPass._make_hashable puts numbers into its keys unchanged, and 0.0 == -0.0 in "
        "Python: products with both become one. Workaround: leave the pass out.",
        link=_SOURCE + "exir/passes/cse_pass.py",
        error="the passes do not keep outputs",
    ),
    Limitation(
        target="portable:fp32+cse|mlx:fp32-passes+cse",
        case="cse/length_and_number|mlx_cse/length_and_number",
        reason="CSEPass._make_hashable represents a node by its value number, a plain integer: a "
        "size that has value number 1 and the literal 1 get the same key. Workaround: leave the "
        "pass out.",
        link=_SOURCE + "exir/passes/cse_pass.py",
        stage="compare",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="mlx:fp32-passes+collapse_dtype_conversion",
        case="mlx_collapse_dtype/to_int_and_back",
        reason="CollapseDtypeConversionPass removes the first of two successive casts even if it "
        "rounds: a cast to integers and back keeps the fraction. Workaround: `torch.trunc` in "
        "place of the casts, or lower without the pass.",
        link=_SOURCE + "backends/mlx/passes.py",
        stage="compare",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="mlx:fp32-passes+collapse_dtype_conversion",
        case="mlx_collapse_dtype/to_bfloat16_and_back",
        reason="CollapseDtypeConversionPass removes a rounding to bfloat16. The result stays "
        "within the bounds of a program with the rounding.",
        link=_SOURCE + "backends/mlx/passes.py",
        error="the passes do not keep outputs",
    ),
    Limitation(
        target="mlx:fp32-passes+*mlx_reinplace",
        case="mlx_reinplace/state|mlx_reinplace/returned|mlx_in_order/state|mlx_in_order/returned",
        reason="reinplace_pass records the inputs of operators but not those of the output node, "
        "so it overwrites values that the program returns or stores. MLX's builder detects this "
        "and copies; exir's own kernels do not. Workaround: leave the pass out.",
        link=_REINPLACE,
        error="the passes do not keep outputs",
    ),
    Limitation(
        target="mlx:fp32-passes+*mlx_reinplace",
        case="mlx_reinplace/entangled|mlx_reinplace/twice_the_same|mlx_reinplace/view_of_written|"
        "mlx_reinplace/input|mlx_reinplace/dynamic_chain|mlx_in_order/views|mlx_in_order/offset|"
        "mlx_in_order/clone_before_write|mlx_in_order/nothing_added|mlx_in_order/dynamic*|"
        "mlx_in_order/entangled|mlx_in_order/twice_the_same|mlx_in_order/view_of_written|"
        "mlx_in_order/input|mlx_in_order/squares_used_twice",
        reason="reinplace_pass copies to its new nodes only the value of the nodes that they "
        "replace and none of their other metadata: stack traces are lost.",
        link=_REINPLACE,
        error="no stack trace",
    ),
    Limitation(
        target="tosa:fp|tosa:fp+*",
        case="arm_asin_and_acos/both",
        reason="DecomposeAsinAndAcosPass has rational coefficients for x*x but passes abs(x) "
        "below 0.5: the error is 1.2e-3.",
        link=_ARM + "decompose_asin_and_acos_pass.py",
        stage="compare",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp|tosa:fp+*",
        case="arm_atan/atan",
        reason="DecomposeAtanPass uses a rational approximation with five coefficients, whose "
        "minimax error on [-1, 1] is 1.3e-4.",
        link=_ARM + "decompose_atan_pass.py",
        stage="compare",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp|tosa:fp+*",
        case="arm_elu/elu|arm_expm1/expm1",
        reason="DecomposeExpm1Pass (also used for ELU and SELU) uses four terms of the Taylor "
        "series up to abs(x) = 0.35, where the fifth term is 4.4e-5.",
        link="https://github.com/pytorch/executorch/pull/13274",
        stage="compare",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp+decompose_var",
        case="arm_var/all|arm_var/both",
        reason="DecomposeVarPass returns shape (1,) instead of () for the variance of all "
        "elements without keepdim, because it multiplies a 0-D sum by a tensor of one element. "
        "In a delegate a later pass and the planned shape hide this. Workaround: `x.var((0, 1), "
        "keepdim=True).reshape(())`.",
        link=_ARM + "decompose_var_pass.py",
        stage="compare",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="portable:fp32+enforce_contiguous",
        case="contiguous/cast",
        reason="EnforceContiguousDimOrder removes every _to_dim_order_copy as if it changed only "
        "the layout, including casts. Workaround: leave the pass out.",
        link=_SOURCE + "backends/transforms/enforce_contiguous_dim_order.py",
        error="the passes do not keep outputs",
    ),
    Limitation(
        target="portable:fp32+enforce_contiguous",
        case="contiguous/to_last|contiguous/cloned|contiguous/kept|contiguous/pooled",
        reason="EnforceContiguousDimOrder creates clones without stack traces.",
        link=_SOURCE + "backends/transforms/enforce_contiguous_dim_order.py",
        error="no stack trace",
    ),
]
