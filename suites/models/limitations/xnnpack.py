"""Known gaps of XNNPACK."""

from __future__ import annotations

from harness import Limitation, Status

XNNPACK: list[Limitation] = [
    Limitation(
        target="xnnpack:*",
        case="siglip/tiny|gemma3/decode*|exporter/siglip|exporter/gemma3",
        reason="GeluVisitor.define_node (backends/xnnpack/operators/op_gelu.py) drops the "
        "approximate argument: the delegate computes the exact gelu.",
        link="https://github.com/pytorch/executorch/pull/22851",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
]
