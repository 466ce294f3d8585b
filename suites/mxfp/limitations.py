"""Limitations of the block-scaled layers."""

from __future__ import annotations

from harness import Limitation

LIMITATIONS: list[Limitation] = [
    Limitation(
        target="tosa:mxfp*",
        case="mxfp_conv2d/stride_remainder",
        reason="TOSA wants a stride that ends at the border of the padded image. "
        "SizeAdjustInputPass cuts the image for aten.convolution only, and "
        "RewriteMXFPConv2dPass takes padding and stride as they are, so the graph is invalid; "
        "the reference model aborts over it.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/_passes/"
        "rewrite_mxfp_conv2d.py",
        stage="lower",
        error="invalid TOSA: the stride 2 of CONV2D_BLOCK_SCALED does not divide 1",
    ),
]
