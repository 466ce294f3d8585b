"""Limitations of XNNPACK."""

from __future__ import annotations

from harness import Limitation, Status

XNNPACK: list[Limitation] = [
    Limitation(
        target="xnnpack:int8",
        case="llama/tiny",
        reason="The halves of a rotary embedding share one dequantize. get_node_and_deps "
        "(partition/config/generic_node_configs.py) of 1.4.1 treats it as implicit, although a "
        "slice in float32 also reads it: XNNPACK gets a slice from int8 to float32 and refuses "
        "it. Workaround: no `type_as` or `to` of the dtype that a tensor has.",
        link="https://github.com/pytorch/executorch/blob/v1.4.1/backends/xnnpack/partition/config/"
        "generic_node_configs.py",
        stage="run",
        error="Failed to create static slice node",
        until="1.5.0",
    ),
    Limitation(
        target="xnnpack:fp32",
        case="siglip/tiny|siglip/base_224|gemma3/tiny|gemma3/decode|"
        "exporter/siglip|exporter/gemma3",
        reason="GeluVisitor.define_node (backends/xnnpack/operators/op_gelu.py) drops the "
        "approximate argument, so the delegate computes the exact gelu. Workaround: write the "
        "tanh form out, or export with it decomposed.",
        link="https://github.com/pytorch/executorch/pull/22851",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="xnnpack:int8|xnnpack:int8_dynamic",
        case="bert/tiny|bert/night|mobilebert/*|t5/tiny",
        reason="The model reads its padding mask with indices computed from positions and a "
        "number. _convert_scalars_to_attrs (quantizer/xnnpack_quantizer_utils.py) converts every "
        "added or multiplied number to a float32 tensor, so the prepared graph indexes with "
        "floats. Workaround: make the number a buffer of integers, or compute the indices "
        "outside of the model.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack/quantizer/"
        "xnnpack_quantizer_utils.py",
        stage="quantize",
        error="tensors used as indices must be long, int, byte or bool tensors",
    ),
    Limitation(
        target="xnnpack:int8",
        case="gemma3/tiny",
        reason="In rotate_half of the second layer, two slices share one dequantize. "
        "get_node_and_deps (partition/config/generic_node_configs.py) treats a dequantize before "
        "a quantized operator as implicit, whatever else reads it. slice_7 is quantized; "
        "slice_8, before neg, is not, and becomes a slice from int8 to float32, which XNNPACK "
        "refuses. It shows only where the first half contains the minimum and maximum, so that "
        "both have one scale. Workaround: no `type_as` or `to` of the dtype that a tensor has.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack/partition/config/"
        "generic_node_configs.py",
        stage="run",
        error="Failed to load method forward",
        seed=0,
    ),
    Limitation(
        target="xnnpack:int8",
        case="rf_detr/tiny",
        reason="_annotate_cat annotates a cat of integers (here a stack of indices), and "
        "torchao's HistogramObserver then observes an int64 tensor, for which torch.histc has no "
        "kernel (docs/findings.md). Workaround: compute the indices outside of the model.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack/quantizer/"
        "xnnpack_quantizer_utils.py",
        stage="quantize",
        error="\"histogram_cpu\" not implemented for 'Long'",
    ),
]
