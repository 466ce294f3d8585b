"""Limitations of passes: properties of programs that they do not keep."""

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
        reason="CSEPass._make_hashable writes numbers as they are, and Python finds 0.0 and -0.0 "
        "equal: products with both become one.",
        link=_SOURCE + "exir/passes/cse_pass.py",
        error="the passes do not keep outputs",
    ),
    Limitation(
        target="portable:fp32+cse|mlx:fp32-passes+cse",
        case="cse/length_and_number|mlx_cse/length_and_number",
        reason="CSEPass._make_hashable writes a node as its value number, a plain integer: a size "
        "that is value number 1 and the number 1 are one key.",
        link=_SOURCE + "exir/passes/cse_pass.py",
        stage="compare",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="mlx:fp32-passes+collapse_dtype_conversion",
        case="mlx_collapse_dtype/to_int_and_back",
        reason="CollapseDtypeConversionPass keeps the last of two casts in a row, whatever the "
        "first one rounds: a cast to integers and back leaves the fraction.",
        link=_SOURCE + "backends/mlx/passes.py",
        stage="compare",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="mlx:fp32-passes+collapse_dtype_conversion",
        case="mlx_collapse_dtype/to_bfloat16_and_back",
        reason="CollapseDtypeConversionPass drops a rounding to bfloat16; what is computed is "
        "within the bounds of a program with it.",
        link=_SOURCE + "backends/mlx/passes.py",
        error="the passes do not keep outputs",
    ),
    Limitation(
        target="mlx:fp32-passes+*mlx_reinplace",
        case="mlx_reinplace/state|mlx_reinplace/returned|mlx_in_order/state|mlx_in_order/returned",
        reason="reinplace_pass records what operators read, not what the graph's output does: it "
        "writes over values that the program returns or keeps. MLX's builder finds out and copies; "
        "exir's own kernels do not.",
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
        reason="reinplace_pass gives its nodes the value of those that they replace, and none of "
        "their other metadata: stack traces are gone.",
        link=_REINPLACE,
        error="no stack trace",
    ),
    Limitation(
        target="tosa:fp|tosa:fp+*",
        case="arm_asin_and_acos/both",
        reason="DecomposeAsinAndAcosPass has rational coefficients for x*x but passes abs(x) "
        "below 0.5: off by 1.2e-3.",
        link=_ARM + "decompose_asin_and_acos_pass.py",
        stage="compare",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp|tosa:fp+*",
        case="arm_atan/atan",
        reason="DecomposeAtanPass approximates by a rational function of five coefficients, "
        "whose minimax error on [-1, 1] is 1.3e-4.",
        link=_ARM + "decompose_atan_pass.py",
        stage="compare",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp|tosa:fp+*",
        case="arm_elu/elu|arm_expm1/expm1",
        reason="DecomposeExpm1Pass, which ELU and SELU use as well, takes four terms of the Taylor "
        "series up to abs(x) = 0.35, where the fifth is 4.4e-5.",
        link="https://github.com/pytorch/executorch/pull/13274",
        stage="compare",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp+decompose_var",
        case="arm_var/all|arm_var/both",
        reason="DecomposeVarPass makes a variance of all elements that keeps no dimension "
        "one of shape (1,): it multiplies a sum without dimensions by a number in a tensor of one. "
        "In the delegate a later pass and the shape that the program plans hide it.",
        link=_ARM + "decompose_var_pass.py",
        stage="compare",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="portable:fp32+enforce_contiguous",
        case="contiguous/cast",
        reason="EnforceContiguousDimOrder removes every _to_dim_order_copy as a change of layout, "
        "a cast too.",
        link=_SOURCE + "backends/transforms/enforce_contiguous_dim_order.py",
        error="the passes do not keep outputs",
    ),
    Limitation(
        target="portable:fp32+enforce_contiguous",
        case="contiguous/to_last|contiguous/cloned|contiguous/kept|contiguous/pooled",
        reason="EnforceContiguousDimOrder makes clones without stack traces.",
        link=_SOURCE + "backends/transforms/enforce_contiguous_dim_order.py",
        error="no stack trace",
    ),
]
