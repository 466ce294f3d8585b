"""Limitations of XNNPACK."""

from __future__ import annotations

from harness import Limitation, Status

XNNPACK: list[Limitation] = [
    Limitation(
        target="xnnpack:int8",
        case="llama/tiny",
        reason="The halves of a rotary embedding share the dequantize in front of them: "
        "get_node_and_deps (partition/config/generic_node_configs.py) of 1.4.1 marks it as one "
        "that needs no code, and a slice from int8 to float32 is left, which XNNPACK refuses.",
        link="https://github.com/pytorch/executorch/blob/v1.4.1/backends/xnnpack/partition/config/"
        "generic_node_configs.py",
        stage="run",
        error="Failed to create static slice node",
        until="1.5.0",
    ),
    Limitation(
        target="xnnpack:fp32",
        case="siglip/tiny|siglip/base_224|gemma3/tiny|gemma3/decode|gemma3/1b_layers|"
        "exporter/siglip|exporter/gemma3",
        reason="GeluVisitor.define_node (backends/xnnpack/operators/op_gelu.py) drops the "
        "approximate argument: the delegate computes the exact gelu.",
        link="https://github.com/pytorch/executorch/pull/22851",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="xnnpack:int8|xnnpack:int8_dynamic",
        case="bert/tiny|bert/night|mobilebert/*|t5/tiny",
        reason="The mask of the padding is read by indices that are made of positions and a "
        "number: _convert_scalars_to_attrs (quantizer/xnnpack_quantizer_utils.py) makes a float32 "
        "tensor of every number that is added or multiplied, whatever it is added to, and the "
        "prepared graph indexes by floats.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack/quantizer/"
        "xnnpack_quantizer_utils.py",
        stage="quantize",
        error="tensors used as indices must be long, int, byte or bool tensors",
    ),
    Limitation(
        target="xnnpack:int8",
        case="gemma3/tiny",
        reason="rotate_half of the second layer: get_node_and_deps (partition/config/"
        "generic_node_configs.py) marks the dequantize before a quantized operator as one that "
        "needs no code, whoever else reads it. slice_7 is quantized, slice_8 before neg is not, "
        "and becomes a slice from int8 to float32, which XNNPACK refuses. Only where the first "
        "half holds the extremes, so that both have one scale.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack/partition/config/"
        "generic_node_configs.py",
        stage="run",
        error="Failed to load method forward",
        seed=0,
    ),
    Limitation(
        target="xnnpack:int8",
        case="rf_detr/tiny",
        reason="XNNPACKQuantizer shares an observer between an unsqueeze and its input without "
        "asking for the dtype (unsqueeze_4, of indices): torchao's HistogramObserver then counts "
        "an int64 tensor, for which torch.histc has no kernel.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack/quantizer/"
        "xnnpack_quantizer_utils.py",
        stage="quantize",
        error="\"histogram_cpu\" not implemented for 'Long'",
    ),
]
