"""Known gaps of XNNPACK."""

from __future__ import annotations

from harness import Limitation, Status

XNNPACK: list[Limitation] = [
    Limitation(
        target="xnnpack:fp32",
        case="siglip/tiny|gemma3/tiny|gemma3/decode*|exporter/siglip|exporter/gemma3",
        reason="GeluVisitor.define_node (backends/xnnpack/operators/op_gelu.py) drops the "
        "approximate argument: the delegate computes the exact gelu.",
        link="https://github.com/pytorch/executorch/pull/22851",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="xnnpack:int8",
        case="bert/tiny|bert/batch_2|mobilebert/tiny|t5/tiny",
        reason="The mask of the padding is read by indices that are made of positions and a "
        "number: _convert_scalars_to_attrs (quantizer/xnnpack_quantizer_utils.py) makes a float32 "
        "tensor of every number that is added or multiplied, whatever it is added to, and the "
        "prepared graph indexes by floats.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack/quantizer/"
        "xnnpack_quantizer_utils.py",
        stage="quantize",
        error="tensors used as indices must be long, int, byte or bool tensors",
    ),
]
