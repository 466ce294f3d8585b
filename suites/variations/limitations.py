"""Limitations of programs with settings, where the recipe without them has none."""

from __future__ import annotations

from harness import Limitation
from suites.known import copy_limitation
from suites.quant.limitations import FILTERED_CONVOLUTION, LIMITATIONS as QUANT

LIMITATIONS: list[Limitation] = [
    copy_limitation(
        QUANT,
        "tosa:int",
        "int_shared/relu_then_cat",
        "varied/int_conv2d_relu|varied/int_linear_relu",
        target="tosa:int+*symmetric_codes*",
        error="codes are not the quantized graph's",
    ),
    Limitation(
        case="varied/permute_copy_to_channels_last_and_back",
        target="tosa:fp+*skip_dim_order*",
        reason="Without dim orders, a number becomes a constant tensor by aten._to_copy, and its "
        "fake tensor keeps its value. MatchArgRanksPass reshapes it with tosa.RESHAPE; "
        "torch computes operators on constants for real, and RESHAPE has no kernel.",
        stage="lower",
        error="could not find kernel for tosa.RESHAPE",
    ),
    Limitation(
        case="varied/nonzero_masked_select",
        target="metal:fp32+*core_aten_exceptions*",
        reason="MetalPartitioner delegates masked_select, whose size depends on data. Inductor "
        "makes symbols for it that no output of the partition has, and refuses the partition.",
        stage="lower",
        error="PendingUnbackedSymbolNotFound",
    ),
    Limitation(
        case="varied/int_conv2d_*|varied/int_model_classifier",
        target="xnnpack:int8+*layer_types*|xnnpack:int8_dynamic+*layer_types*",
        reason=FILTERED_CONVOLUTION,
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack/quantizer/"
        "xnnpack_quantizer_utils.py",
        stage="quantize",
        error="set_module_type(Conv2d) has no effect",
    ),
]
