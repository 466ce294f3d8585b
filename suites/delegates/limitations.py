"""Limitations of programs of several delegates."""

from __future__ import annotations

from dataclasses import replace

from harness import Limitation
from suites.known import copy_limitation
from suites.ops.limitations import LIMITATIONS as OF_OPERATORS

_UPSTREAM = "https://github.com/pytorch/executorch/blob/v1.5.1/"

_CONVOLUTION = copy_limitation(
    OF_OPERATORS, "metal:fp32", "convolution/2d", "delegates/convolutional"
)

LIMITATIONS: list[Limitation] = [
    _CONVOLUTION,
    replace(_CONVOLUTION, target="metal:fp32/xnnpack:fp32"),
    *(
        Limitation(
            case="delegates/branches*",
            target=target,
            reason="Inductor reads the predicate of torch.cond with aoti_torch_item_bool, which "
            "the Metal runtime does not have (backends/apple/metal/runtime/shims).",
            stage="lower",
            error="aoti_torch_item_bool: is not in",
        )
        for target in (
            "metal:fp32",
            "metal:fp32/xnnpack:fp32",
            "xnnpack:fp32/metal:fp32",
            "mlx:fp32/metal:fp32",
        )
    ),
    Limitation(
        case="delegates/branches_of_layers",
        target="xnnpack:fp32",
        reason="XnnpackPartitioner asks to keep linear undecomposed also in branches, but makes "
        "partitions of the outer graph only. to_edge_transform_and_lower refuses the "
        "linear that is left.",
        link=_UPSTREAM + "exir/program/_program.py",
        stage="lower",
        error="was not decomposed or delegated",
    ),
    *(
        Limitation(
            case="delegates/branches_of_layers",
            target=target,
            reason="RewriteConvPass._rewrite_weight permutes the weight of a linear layer at "
            "compile time. In a branch, where a weight is an operand, "
            "_resolve_control_flow_constant finds a call in front of the condition "
            "instead of the parameter.",
            link=_UPSTREAM + "backends/arm/_passes/rewrite_conv_pass.py",
            stage="lower",
            error="unsupported param type, call_function",
        )
        for target in ("tosa:fp", "tosa:fp/xnnpack:fp32", "xnnpack:fp32/tosa:fp")
    ),
]
