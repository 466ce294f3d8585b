"""Limitations of the Cortex-M backend."""

from __future__ import annotations

from harness import Limitation
from suites.known import copy_limitation
from suites.ops.limitations import LIMITATIONS as OPS
from suites.quant.limitations import LIMITATIONS as QUANT

_SOURCE = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/"

CORTEX_M: list[Limitation] = [
    Limitation(
        target="cortex_m:*",
        case="llama/decode_positioned",
        reason="prepare_pt2e leaves the cache, a buffer that index_put_ writes, in float32 "
        "(_is_mutable_buffer_arg of torchao's prepare.py). SharedQspecQuantizer takes index_put_ "
        "all the same, and FoldAndAnnotateQParamsPass removes the dequantization of the values: "
        "the program writes codes to a float buffer.",
        link=_SOURCE + "arm/quantizer/arm_quantizer_utils.py",
        stage="run",
        error="Tensors do not match: dtype={Float, Char}",
    ),
    Limitation(
        target="tosa:int|cortex_m:*",
        case="llama/decode",
        reason="The cache counts its positions by add_ of a constant to a buffer. torchao's "
        "ConstantFolder recognizes writes by the names copy_ and put_: it folds the sum to the "
        "value of one call, and writes to the buffer of the program that is quantized "
        "(docs/findings/torchao_folds_writes.py). Workaround: positions as an input, as in "
        "llama/decode_positioned.",
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/quantization/pt2e/"
        "constant_fold.py",
        stage="quantize",
        error="prepare changed what it was given: inner.cumulative_length_0",
    ),
    copy_limitation(QUANT, "cortex_m:int8", "int_in_place/celu", "sam2/tiny", target="cortex_m:*"),
    Limitation(
        target="cortex_m:*",
        case="mamba/tiny",
        reason="MatmulToBmmPass calls `to_tensor` of both operands, which a parameter does not "
        "have. Workaround: torch.nn.functional.linear.",
        link=_SOURCE + "cortex_m/passes/matmul_to_bmm_pass.py",
        stage="quantize",
        error="'Parameter' object has no attribute 'to_tensor'",
    ),
    Limitation(
        target="cortex_m:*",
        case="rt_detr/night",
        reason="generate_anchors of the model sets invalid anchors to the largest float32, and "
        "SharedQspecQuantizer takes that selection: its codes have a step of 1e36. Workaround: "
        "compute the anchors outside of the model.",
        link=_SOURCE + "arm/quantizer/arm_quantizer_utils.py",
        stage="quantize",
        error="the module was quantized wrongly: log",
    ),
    Limitation(
        target="cortex_m:*",
        case="rf_detr/tiny",
        reason="The model writes its proposals to slices of torch.empty. SharedQspecQuantizer "
        "takes copy_ and gives the uninitialized memory an observer: what it contains decides on "
        "the codes. Where it contains zeros, the program fails later: amax of a decomposed "
        "softmax has a number for the list of dimensions. Workaround: torch.cat of the proposals.",
        link=_SOURCE + "arm/quantizer/arm_quantizer_utils.py",
        stage="quantize",
        error="the module was quantized wrongly",
        or_fails=(("run", "takes List[int] for 'dim', the program passes Int"),),
    ),
    Limitation(
        target="cortex_m:*",
        case="siglip/tiny",
        reason="torch.nn.MultiheadAttention slices its packed weight. is_weight of the quantizer "
        "takes parameters only, and the slice gets the parameters of an activation, with a zero "
        "point. The replacement of a linear layer refuses it.",
        link=_SOURCE + "cortex_m/passes/aten_to_cortex_m_pass.py",
        stage="lower",
        error="assumes symmetric weight quantization (weight_zp == 0)",
    ),
    copy_limitation(
        OPS,
        "cortex_m:int8",
        "pixel_shuffle/factor3",
        "deit/tiny|vit/tiny|dinov2/tiny",
        target="cortex_m:*",
        reason="`flatten` of the patches becomes a view of planned memory, which is channels-last "
        "behind a convolution, and the program declares the result contiguous: values are silently "
        "permuted. Workaround: `.contiguous()` before it.",
    ),
]
