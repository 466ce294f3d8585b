"""Limitations of values that several operators read."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from harness import Limitation, Status
from suites.crossings.build import match_rows
from suites.known import copy_limitation, variants
from suites.metal.limitations import LIMITATIONS as METAL
from suites.opinfo.limitations import LIMITATIONS as OPINFO
from suites.ops.limitations import LIMITATIONS as OPS
from suites.quant.limitations import LIMITATIONS as QUANT

_ARM = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/"
_INT8 = "xnnpack:int8_per_tensor"
_LAYERS = "conv depthwise batchnorm transposed"


_rows = partial(variants, "crossing_shared")
"""Globs over single cases, by the values of their rows."""

_XNNPACK = [
    copy_limitation(
        QUANT,
        "xnnpack:int8",
        "int_in_place/mish",
        _rows(
            "batchnorm_relu_poolbefore_returned batchnorm_gelu_where_none "
            "batchnorm_softmax_beforesub_before batchnorm_leakyrelu_mulbefore_before "
            "batchnorm_neg_subbefore_before conv_number_beforesub_before "
            "transposed_gelu_poolbefore_before transposed_relu_beforesub_before "
            "depthwise_leakyrelu_where_view depthwise_tanh_beforesub_before "
            "maxpool_leakyrelu_addinput_before maxpool_sigmoid_catbefore_before "
            "maxpool_hardtanh_poolbefore_returned maxpool_tanh_where_none"
        ),
        target=_INT8,
        error="method->execute() failed",
    ),
    copy_limitation(
        QUANT,
        "xnnpack:int8",
        "int_in_place/celu",
        _rows("transposed_hardsigmoid_where_none depthwise_hardsigmoid_maximum_before"),
        target=_INT8,
    ),
    copy_limitation(
        QUANT,
        "xnnpack:int8",
        "int_in_place/mish",
        _rows("transposed_clampmax_stackbefore_before"),
        target=_INT8,
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    copy_limitation(
        QUANT,
        "xnnpack:int8",
        "int_shared/relu6_beside_output",
        _rows("linear_relu6_beforecat_before"),
        target=_INT8,
    ),
    copy_limitation(
        OPS,
        "xnnpack:fp32",
        "_softmax/behind_convolution",
        match_rows("shared", f"{_LAYERS} maxpool", "softmax", "*", "*"),
        target=f"xnnpack:fp32|{_INT8}",
    ),
]

_SCALED_NEGATION = Limitation(
    target="tosa:int",
    case=_rows("maxpool_neg_mulitself_layer avgpool_neg_catinput_view"),
    reason="The quantizer means to give a negation the parameters of its input. Behind an "
    "operator that shares those of its own input (relu, clamp, permute, pooling) the output "
    "gets a scale of its own, and NegVisitor writes a NEGATE, which has none: results are "
    "silently scaled. Workaround: `x * -1`.",
    link=_ARM + "quantizer/quantization_annotator.py",
    stage="compare",
    error="elements exceed the bound",
    outcome=Status.MISMATCH,
)

_TOSA = [
    copy_limitation(
        OPINFO,
        "tosa:fp",
        "opinfo/tanh/float32_0",
        _rows(
            "add_tanh_mulitself_layer depthwise_tanh_beforesub_before mul_tanh_subbefore_returned "
            "cat_tanh_poolbefore_view batchnorm_relu_again_before add_softmax_again_returned "
            "avgpool_relu6_again_none mul_relu_again_returned linear_hardtanh_again_returned"
        ),
    ),
    _SCALED_NEGATION,
    replace(
        _SCALED_NEGATION,
        case=_rows("cat_neg_beforesub_view"),
        error="codes are not the quantized graph's",
    ),
    replace(_SCALED_NEGATION, target="tosa:int16", case=_rows("matmul_neg_mulbefore_view")),
    Limitation(
        target="tosa:int|tosa:int16",
        case=_rows("matmul_sigmoid_where_returned maxpool_tanh_where_none"),
        reason="No Arm pass quantizes the other operand of a selection whose first one has the "
        "fixed parameters of a sigmoid or tanh.",
        link=_ARM + "quantizer/quantization_annotator.py",
        stage="lower",
        error="Expected matching dtypes but got torch.int",
    ),
    Limitation(
        target="tosa:int|tosa:int16",
        case=_rows("cat_tanh_poolbefore_view linear_sigmoid_poolbefore_view"),
        reason="An average pooling shares the parameters of its input. Behind a sigmoid or tanh, "
        "whose parameters are fixed, its input stays float32, which TOSA's integer profile does "
        "not pool. Workaround: pool before the activation.",
        link=_ARM + "quantizer/quantization_annotator.py",
        stage="lower",
        error="Unsupported input dtype torch.float32",
    ),
]

_METAL = [
    copy_limitation(
        OPS,
        "metal:fp32",
        "convolution/2d",
        match_rows("shared", "conv depthwise transposed", "*", "*", "*"),
    ),
    copy_limitation(
        METAL,
        "metal:fp32",
        "cat/ten_by_rows",
        match_rows("shared", "*", "*", "catbefore beforecat stackbefore", "*")
        + "|"
        + match_rows("shared", "add mul avgpool maxpool permute input", "*", "catinput", "*"),
    ),
]

SHARED: list[Limitation] = [*_XNNPACK, *_TOSA, *_METAL]
