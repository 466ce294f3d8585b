"""What passes do not keep."""

from __future__ import annotations

from harness import Limitation, Status

_SOURCE = "https://github.com/pytorch/executorch/blob/v1.5.1/"
_REINPLACE = _SOURCE + "exir/passes/reinplace.py"

LIMITATIONS = [
    Limitation(
        target="portable:fp32+cse|mlx:fp32-passes+cse",
        case="cse/zeros|mlx_cse/zeros",
        reason="CSEPass._make_hashable writes numbers as they are, and Python finds 0.0 and -0.0 "
        "equal: products with both become one.",
        link=_SOURCE + "exir/passes/cse_pass.py",
        error="the passes do not keep outputs",
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
]
