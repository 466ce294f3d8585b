"""Limitations of the integer suite: Cortex-M."""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import copy_limitation
from suites.ops.limitations.cortex_m import CORTEX_M as CORTEX_M_OPS

_ARM = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/"

CORTEX_M: list[Limitation] = [
    Limitation(
        target="cortex_m:*",
        case="int_in_place/add_number|int_in_place/mul_number|int_in_place/sqrt",
        reason="ScalarsToAttributePass makes tensors of the numbers of add and mul, not of add_ "
        "and mul_. _get_quantized_add_replacement and _get_quantized_mul_replacement then read "
        "the parameters that a number does not have. Workaround: `y = y + 0.5`.",
        link=_ARM + "_passes/scalars_to_attribute_pass.py",
        stage="lower",
        error="KeyError: 1",
    ),
    Limitation(
        target="cortex_m:*",
        case="int_in_place/celu|int_in_place/threshold",
        reason="A convolution of Cortex-M returns a channels-last tensor. Operators behind it "
        "that stay on the CPU get operands of two dim orders, which portable kernels refuse.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/kernels/portable/cpu/util/"
        "tensor_util_portable.cpp",
        stage="run",
        error="input tensors have different dim orders",
    ),
    Limitation(
        target="cortex_m:*",
        case="int_shared/relu_then_cat",
        reason="The quantizer gives no parameters to the result of a layer before a relu, because "
        "ActivationFusionPass fuses the two. The pass leaves a relu whose result has negative "
        "codes, and torch's linear remains, with codes and a bias of two dtypes. "
        "Workaround: `torch.relu(y + 0.0)`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/cortex_m/passes/"
        "activation_fusion_pass.py",
        stage="run",
        error="tensors_have_same_dtype(in, mat2, out)",
    ),
    Limitation(
        target="cortex_m:*",
        case="int_in_place/hardsigmoid",
        reason="ActivationFusionPass fuses a hardsigmoid into the layer before it: it adds the "
        "half to the zero point, rounded, which moves results by up to half a step, and clamps "
        "the zero point to int8, which makes small results wrong "
        "(docs/findings/cortex_m_hardsigmoid.py). Workaround: `F.relu6(y + 3) * (1 / 6)`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/cortex_m/passes/"
        "activation_fusion_pass.py",
        stage="compare",
        error="codes are not the quantized graph's",
        outcome=Status.MISMATCH,
    ),
    copy_limitation(
        CORTEX_M_OPS, "cortex_m:int8", "where/computed_condition", "int_in_place/masked_fill",
        target="cortex_m:*",
    ),
    Limitation(
        target="cortex_m:*",
        case="int_conv2d/channel_of_zeros",
        reason="The observers of CortexMQuantizer have no `eps` beyond that of float32. The bias "
        "of a channel whose weights are all small has such small steps that int32 cannot hold it "
        "(docs/findings.md). Workaround: add 1e-4 to one weight of such a channel.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/cortex_m/quantizer/"
        "quantization_configs.py",
        stage="quantize",
        error="rounding the values of channel 1 to its codes",
    ),
    Limitation(
        target="cortex_m:*",
        case="int_linear/two_users",
        reason="QuantizedClampActivationPass turns a relu that is not fused into a clamp at the "
        "zero point, but not behind a linear layer, whose metadata is not int8 yet: the relu "
        "sets codes below 0 to 0. Workaround: `torch.relu(y + 0)` behind the layer.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/cortex_m/passes/"
        "quantized_clamp_activation_pass.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="cortex_m:*",
        case="int_model/attention",
        reason="Behind a linear layer, whose metadata is not int8 yet, a batched matrix product is "
        "traced with operands of two types.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/cortex_m/passes/"
        "aten_to_cortex_m_pass.py",
        stage="lower",
        error="expected scalar type torch.int8 but found torch.int32",
    ),
    copy_limitation(
        CORTEX_M_OPS, "cortex_m:int8", "convolution/2d_dilation", "int_conv2d/dilation",
        target="cortex_m:*",
    ),
    copy_limitation(
        CORTEX_M_OPS, "cortex_m:int8", "slice_copy/channels_last", "int_shared/halves_of_a_conv",
        target="cortex_m:*",
    ),
]  # fmt: skip
