"""Limitations of the Cortex-M backend on its own suite."""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import copy_limitation
from suites.quant.limitations import LIMITATIONS as QUANT

_PASSES = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/cortex_m/passes/"
_NOT_FUSED = (
    "The quantizer gives no parameters to the result of a layer or sum before an activation, "
    "because ActivationFusionPass fuses the two. The pass leaves an activation whose bounds are "
    "inside of the quantized range, which a lower bound above 0 always is. "
)

LIMITATIONS: list[Limitation] = [
    copy_limitation(
        QUANT,
        "cortex_m:int8",
        "int_in_place/hardsigmoid",
        "cortex_m/linear_hardsigmoid_low",
        target="cortex_m:*",
        error="elements exceed the bound",
    ),
    Limitation(
        target="cortex_m:*",
        case="cortex_m/hardtanh_of_tanh|cortex_m/relu_of_sigmoid",
        reason="Torch promotes the codes of a sigmoid or tanh to float32, and "
        "QuantizedClampActivationPass leaves out a relu, hardtanh or clamp whose operand's "
        "metadata is not int8: the bounds are applied to codes. Workaround: `x + 0` between the "
        "two.",
        link=_PASSES + "quantized_clamp_activation_pass.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="cortex_m:*",
        case="cortex_m/add_clamp_above|cortex_m/conv2d_clamp_above",
        reason=f"{_NOT_FUSED}Torch's operator remains, and computes with codes. "
        "Workaround: `y + 0` between the two.",
        link=_PASSES + "activation_fusion_pass.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="cortex_m:*",
        case="cortex_m/linear_clamp_above",
        reason=f"{_NOT_FUSED}Torch's linear remains, with codes and a bias of two dtypes. "
        "Workaround: `y + 0` between the two.",
        link=_PASSES + "activation_fusion_pass.py",
        stage="run",
        error="tensors_have_same_dtype(in, mat2, out)",
    ),
    Limitation(
        target="cortex_m:*",
        case="cortex_m/pad_behind_pool",
        reason="The result of cortex_m.quantized_max_pool2d is channels-last, also of a contiguous "
        "tensor. _get_pad_replacement orders the padding by the layout that the tensor had before, "
        "and cortex_m.pad pads other dimensions (docs/findings.md). Workaround: "
        "`x.contiguous(memory_format=torch.channels_last)` before the pooling.",
        link=_PASSES + "aten_to_cortex_m_pass.py",
        stage="compare",
        error="shape (1, 4, 4, 5), expected (1, 4, 6, 3)",
        outcome=Status.MISMATCH,
    ),
]
