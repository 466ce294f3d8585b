"""Limitations of the block-scaled layers."""

from __future__ import annotations

from harness import Limitation

LIMITATIONS: list[Limitation] = [
    Limitation(
        target="tosa:mxfp*",
        case="mxfp_conv2d/stride_remainder",
        reason="TOSA requires that the stride divides the padded image exactly. "
        "SizeAdjustInputPass crops the image for aten.convolution only, and "
        "RewriteMXFPConv2dPass passes padding and stride unchanged, so the graph is invalid and "
        "the reference model aborts. Workaround: choose an image size that the stride divides.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/_passes/"
        "rewrite_mxfp_conv2d.py",
        stage="lower",
        error="invalid TOSA: the stride 2 of CONV2D_BLOCK_SCALED does not divide 1",
    ),
]
