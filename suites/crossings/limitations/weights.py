"""Limitations of layers whose weight or bias is no plain parameter."""

from __future__ import annotations

from harness import Limitation, Status
from suites.crossings.build import match_rows
from suites.known import copy_limitation
from suites.models.limitations import LIMITATIONS as MODELS
from suites.ops.limitations import LIMITATIONS as OPS
from suites.signatures.limitations import LIMITATIONS as SIGNATURES

_SOURCE = "https://github.com/pytorch/executorch/blob/v1.5.1/"
_ARM = _SOURCE + "backends/arm/"
_CORTEX_M = _SOURCE + "backends/cortex_m/"
_XNNPACK = _SOURCE + "backends/xnnpack/"

_IMAGE_LAYERS = "conv2d depthwise deconv"
_CONVOLUTIONS = "conv1d " + _IMAGE_LAYERS
_LAYERS = "linear " + _CONVOLUTIONS


def _cases(layers: str, weights: str = "*", biases: str = "*", then: str = "*") -> str:
    """Globs over the cases of layers, of origins of the weight and of origins of the bias."""
    return match_rows("weight", layers, weights, biases, then)


_WRITTEN = [
    copy_limitation(
        SIGNATURES,
        "tosa:int",
        "state/counter",
        cases,
        target=targets,
        error="changed what it was given: weight0 of the exported program",
    )
    for targets, cases in (
        ("tosa:int|cortex_m:*", _cases("*", "written")),
        ("xnnpack:int8", _cases(_LAYERS, "written")),
    )
]

_XNNPACK_WEIGHTS = [
    Limitation(
        case=_cases("conv1d", "reread"),
        target="xnnpack:fp32",
        reason="Conv1dUnsqueezePass gives the weight of a conv1d a fourth dimension, also for its "
        "other readers in the delegate (docs/findings/xnnpack_conv1d_weight.py). Workaround: a "
        "`conv2d` of `x.unsqueeze(-1)` and `weight.unsqueeze(-1)`.",
        link=_XNNPACK + "_passes/conv1d_unsqueeze_pass.py",
        stage="run",
        error="Failed to retrieve dim order from tensor",
    ),
    Limitation(
        case=_cases(_CONVOLUTIONS, "*", "scaled sliced input", "relu")
        + "|"
        + _cases(_CONVOLUTIONS, "input picked dropped", "*", "relu"),
        target="xnnpack:int8",
        reason="XNNPACK refuses a quantized layer whose bias or weight is computed, and takes the "
        "relu behind it alone, from float32 to int8, which its clamp cannot do: "
        "GEMMConfig.get_deps has marked the quantize behind the relu as implicit all the same "
        "(docs/findings/xnnpack_refused_layer.py). Workaround: add the bias behind the layer.",
        link=_XNNPACK + "partition/config/gemm_configs.py",
        stage="run",
        error="xnn_status_unsupported_parameter",
    ),
    Limitation(
        case=_cases(_LAYERS, "input picked dropped"),
        target="xnnpack:int8",
        reason="The quantizer gives a weight that the program computes scales by channel, in "
        "float32, and no delegate takes such a layer. The kernel quantize_per_channel ends the "
        "process for scales other than float64 (docs/findings/runtime_quantize_per_channel.py). "
        "Workaround: `is_per_channel=False`.",
        link=_SOURCE + "kernels/quantized/cpu/op_quantize.cpp",
        stage="run",
        error="Aborted",
        outcome=Status.CRASHED,
    ),
    Limitation(
        case=_cases(_CONVOLUTIONS, "*", "scaled sliced input")
        + "|"
        + _cases("matmul", "joined scaled merged written"),
        target="xnnpack:int8",
        reason="GEMMConfig.get_deps marks the quantize and dequantize nodes around a layer as "
        "implicit, also where XNNPACK refuses the layer because its bias or weight is computed: "
        "delegates then exchange int8 with it as float32, and results are silently wrong "
        "(docs/findings/xnnpack_refused_layer.py). Workaround: add the bias behind the layer.",
        link=_XNNPACK + "partition/config/gemm_configs.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
]

_ARM_WEIGHTS = [
    Limitation(
        case=_cases("batchnorm"),
        target="tosa:fp",
        reason="FuseBatchNorm2dPass reads weight and bias as parameters of the program, and raises "
        "TypeError where one is computed or an input.",
        link=_ARM + "_passes/fuse_batch_norm2d_pass.py",
        stage="lower",
        error="data must be a sequence",
    ),
    copy_limitation(
        OPS,
        "tosa:fp",
        "convolution/2d_weight_is_input",
        _cases(_LAYERS, "picked written input"),
        error="unsupported param type",
    ),
    copy_limitation(
        OPS,
        "tosa:fp",
        "convolution/2d_weight_is_input",
        _cases(_LAYERS, "picked input"),
        target="tosa:int",
        error="unsupported param type",
    ),
    Limitation(
        case=_cases(_LAYERS, "*", "input"),
        target="tosa:int",
        reason="The quantizer gives a bias that is an input the codes of an activation, and the "
        "partitioner takes a layer with such a bias. TOSA has int32 biases only. Workaround: add "
        "the bias behind the layer.",
        link=_ARM + "quantizer/quantization_annotator.py",
        stage="lower",
        error="only supports torch.int32 bias for torch.int8 input",
    ),
]

_CORTEX_M_WEIGHTS = [
    copy_limitation(
        MODELS,
        "cortex_m:int8",
        "mamba/tiny",
        _cases("*", "merged") + "|" + _cases("matmul", "parameter reread"),
        target="cortex_m:*",
    ),
    copy_limitation(
        OPS,
        "cortex_m:int8",
        "_native_batch_norm_legit_no_training/2d",
        _cases(
            "batchnorm",
            "joined expanded reread scaled picked input parameter dropped stepped sliced",
        ),
        target="cortex_m:*",
    ),
    copy_limitation(
        OPS,
        "cortex_m:int8",
        "prelu/per_channel",
        _cases(
            "prelu", "joined expanded reread scaled picked input parameter dropped stepped sliced"
        ),
        target="cortex_m:*",
    ),
    copy_limitation(
        MODELS,
        "cortex_m:int8",
        "siglip/tiny",
        _cases(
            "linear",
            "scaled expanded normalized input joined sliced stepped picked swapped dropped",
        ),
        target="cortex_m:*",
        reason="is_weight of the quantizer takes parameters only, and a computed weight gets the "
        "parameters of an activation, with a zero point. The replacement of a linear layer refuses "
        "it.",
    ),
    copy_limitation(
        OPS,
        "cortex_m:int8",
        "convolution/2d_weight_is_input",
        _cases(_IMAGE_LAYERS, "joined stepped picked sliced swapped input dropped")
        + "|"
        + _cases("linear", "*", "sliced"),
        target="cortex_m:*",
    ),
    Limitation(
        case=_cases(_IMAGE_LAYERS, "scaled expanded normalized")
        + "|"
        + _cases(_IMAGE_LAYERS, "*", "scaled input sliced"),
        target="cortex_m:*",
        reason="A bias that is computed or an input has the codes of an activation, and kernels "
        "read it as int32 codes of the accumulator; a computed weight has a zero point, which the "
        "kernels of a convolution do not take. Results are silently wrong "
        "(docs/findings/cortex_m_computed_weight.py). Workaround: parameters that hold the "
        "products.",
        link=_CORTEX_M + "passes/aten_to_cortex_m_pass.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
]

_METAL_WEIGHTS = [
    copy_limitation(
        OPS,
        "metal:fp32",
        "convolution/2d",
        _cases(
            _IMAGE_LAYERS,
            "parameter swapped sliced stepped joined expanded scaled normalized merged dropped "
            "reread written picked input",
        ),
    ),
    copy_limitation(OPS, "metal:fp32", "einsum/contract", _cases("bmm", "swapped")),
]

WEIGHTS: list[Limitation] = [
    *_WRITTEN,
    *_XNNPACK_WEIGHTS,
    *_ARM_WEIGHTS,
    *_CORTEX_M_WEIGHTS,
    *_METAL_WEIGHTS,
]
