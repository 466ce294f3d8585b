"""Passes of the Arm pipeline that rewrite arithmetic; a target can name each of them.

Arm runs them inside the delegate. Here they run on the edge dialect, before partitioning. All of
them change how a result is computed, and so its rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends.tosa.specifications import FP
from harness.model.recipe import KnownPass

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_FOLDER = "executorch.backends.arm._passes"

_ARM_PASSES = {
    "decompose_acosh": ("decompose_acosh_pass:DecomposeAcoshPass", "acosh"),
    "decompose_add_sub_alpha": (
        "decompose_add_sub_alpha_pass:DecomposeAddSubAlphaPass",
        "additions with a factor",
    ),
    "decompose_addmm": ("decompose_addmm_pass:DecomposeAddmmPass", "addmm"),
    "decompose_asin_and_acos": (
        "decompose_asin_and_acos_pass:DecomposeAsinAndAcosPass",
        "asin and acos",
    ),
    "decompose_asinh": ("decompose_asinh_pass:DecomposeAsinhPass", "asinh"),
    "decompose_atan": ("decompose_atan_pass:DecomposeAtanPass", "atan"),
    "decompose_atanh": ("decompose_atanh_pass:DecomposeAtanhPass", "atanh"),
    "decompose_cosh": ("decompose_cosh_pass:DecomposeCoshPass", "cosh"),
    "decompose_div": ("decompose_div_pass:DecomposeDivPass", "divisions"),
    "decompose_elu": ("decompose_elu_pass:DecomposeEluPass", "elu"),
    "decompose_expm1": ("decompose_expm1_pass:DecomposeExpm1Pass", "expm1"),
    "decompose_gelu": ("decompose_gelu_pass:DecomposeGeluPass", "gelu"),
    "decompose_group_norm": ("decompose_groupnorm_pass:DecomposeGroupNormPass", "group norms"),
    "decompose_int_pow": ("decompose_int_pow_pass:DecomposeIntPowPass", "whole powers"),
    "decompose_layer_norm": ("decompose_layernorm_pass:DecomposeLayerNormPass", "layer norms"),
    "decompose_leaky_relu": ("decompose_leaky_relu_pass:DecomposeLeakyReLUPass", "leaky relu"),
    "decompose_log1p": ("decompose_log1p_pass:DecomposeLog1pPass", "log1p"),
    "decompose_logit": ("decompose_logit_pass:DecomposeLogitPass", "logit"),
    "decompose_round": ("decompose_round_pass:DecomposeRoundPass", "round"),
    "decompose_sign": ("decompose_sign_pass:DecomposeSignPass", "sign"),
    "decompose_sinh": ("decompose_sinh_pass:DecomposeSinhPass", "sinh"),
    "decompose_softmax": ("decompose_softmax_pass:DecomposeSoftmaxPass", "softmax"),
    "decompose_sqrt": ("decompose_sqrt_pass:DecomposeSqrtPass", "roots"),
    "decompose_sum": ("decompose_sum_pass:DecomposeSumPass", "sums over several dimensions"),
    "decompose_tan": ("decompose_tan_pass:DecomposeTanPass", "tan"),
    "decompose_var": ("decompose_var_pass:DecomposeVarPass", "variances"),
}  # fmt: skip

PASSES = {
    name: KnownPass(f"{_FOLDER}.{where}", f"decomposes {operators}", rounds=True)
    for name, (where, operators) in _ARM_PASSES.items()
} | {
    "decompose_mean": KnownPass(f"{__name__}:decompose_mean", "decomposes means", rounds=True),
}


def decompose_mean(program: ExportedProgram) -> ExportedProgram:
    """Apply Arm's pass for means; its constructor needs the graph and a specification."""
    from executorch.backends.arm._passes.decompose_meandim_pass import DecomposeMeanDimPass
    from executorch.backends.arm.tosa.specification import TosaSpecification

    from harness.vendors.executorch import _transform

    specification = TosaSpecification.create_from_string(FP)
    decomposed: ExportedProgram = _transform(
        program, DecomposeMeanDimPass(program.graph_module, specification)
    )
    return decomposed
