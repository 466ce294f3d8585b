"""The recipes of the VGF backend: those of TOSA with another partitioner, quantizer and script.

Arm lowers for VGF with its passes for TOSA, and converts each TOSA graph to SPIR-V.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.tosa.recipes import RECIPES as TOSA_RECIPES
from backends.tosa.specifications import BF16, FP, INT, INT16
from backends.vgf.tools import provide_converter
from harness.backend_api import Precision, Recipe, Script

if TYPE_CHECKING:
    from executorch.exir.backend.partitioner import Partitioner

# The emulation layer's shaders (graph/shaders/graph_op/tosa of arm/ai-ml-emulation-layer-for-vulkan
# 0.11) compute each TOSA operator with GLSL functions, which Mesa's lavapipe compiles
# (src/gallium/auxiliary/gallivm/lp_bld_arit.c of Mesa 22.3, and llvm.sin and llvm.cos):
# - exp(x) is exp2(x * log2(e)): product and constant round the argument twice. The polynomial of
#   exp2 errs by 1.2 units of the result, which the default of 4 units covers.
# - log(x) is ln(2) * (exponent + polynomial of the mantissa). Just below 1 they are -1 and almost
#   1: their rounding errors, about four of size u, remain, however small the result is. That is
#   ln(2) * 4 u, as if x had been rounded three times. Vulkan allows 2^-21, which is 8 u (appendix
#   "Precision and Operation of SPIR-V Instructions"). POW is exp2(y * log2(x)).
# - erf and tanh are formulas of the shader (elementwise_unary.comp), and a quotient is RECIPROCAL
#   and MUL; TOSA's limits hold for them.
# Integer operators are exact in the shaders, so the model of TOSA's integers holds.
_ARGUMENT_ROUNDINGS = 3.0

# Arm's configurations of its quantizer, by the bits of activations and weights.
_A8W8 = "get_symmetric_quantization_config"
_A16W8 = "get_symmetric_a16w8_quantization_config"


def make_partitioners(specification: str) -> list[Partitioner]:
    """Make the VGF partitioner for a TOSA specification string."""
    from executorch.backends.arm.vgf import VgfCompileSpec, VgfPartitioner

    provide_converter()
    return [VgfPartitioner(VgfCompileSpec(specification))]


def make_quantizer(specification: str, config: str) -> Any:
    """Make the VGF quantizer for a TOSA specification string.

    Args:
        specification: the specification, of an integer profile.
        config: the name of Arm's function that makes the configuration; weights per channel.
    """
    from executorch.backends.arm import quantizer as arm
    from executorch.backends.arm.vgf import VgfCompileSpec

    quantizer = arm.VgfQuantizer(VgfCompileSpec(specification))
    quantizer.set_global(getattr(arm, config)(is_per_channel=True))
    return quantizer


_ARM = "executorch.backends.arm"
_VGF = f"{_ARM}.vgf"
_STANDALONE = Path(__file__).with_name("standalone.py")

_RUN = """\
module = lowered.exported_program().module()
if "executorch_call_delegate" not in module.code:
    program = bytes(lowered.to_executorch().buffer)
    return execute(program, CALLS, "", Path(__file__).with_suffix(".pte"))
results = []
with emulate_delegates():
    for call in CALLS:
        results.append(call_model(module, call, CHANGED))
return results
"""


def make_script(specification: str, config: str) -> Script:
    """Make the script of a recipe; the arguments are those of :func:`make_recipe`."""
    preamble = f"""{_STANDALONE.read_text()}

def partitioner():
    provide_converter()
    return VgfPartitioner(VgfCompileSpec({specification!r}))
"""
    imports: tuple[str, ...] = (
        "import json",
        "import os",
        "import numpy",
        f"from {_VGF} import VgfCompileSpec, VgfPartitioner",
    )
    if config:
        imports = (*imports, f"from {_ARM}.quantizer import VgfQuantizer, {config}")
        preamble += f"""

def quantizer():
    arm_quantizer = VgfQuantizer(VgfCompileSpec({specification!r}))
    arm_quantizer.set_global({config}(is_per_channel=True))
    return arm_quantizer
"""
    return Script(
        imports=imports,
        preamble=preamble,
        partitioners="[partitioner()]",
        quantizer="quantizer()" if config else "",
        run=_RUN,
        ours="the harness executed the program from its bytes, each delegate call on Arm's "
        "emulation layer for Vulkan; here the lowered graph runs in Python, and Arm's scenario "
        "runner executes each delegate call, without the program's planned memory",
    )


def make_recipe(name: str, specification: str, config: str = "") -> Recipe:
    """Make the recipe of VGF from the recipe of TOSA of the same name.

    Args:
        name: the name of both.
        specification: the specification string.
        config: as in :func:`make_quantizer`; empty for a floating-point specification.
    """
    tosa = TOSA_RECIPES[name]
    return replace(
        tosa,
        precision=tosa.precision if config else _adapt(tosa.precision),
        partitioners=functools.partial(make_partitioners, specification),
        quantizer=functools.partial(make_quantizer, specification, config) if config else None,
        script=make_script(specification, config),
        like=(f"tosa:{name}",),
    )


def _adapt(precision: Precision) -> Precision:
    return replace(precision, argument_roundings=_ARGUMENT_ROUNDINGS)


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        make_recipe("fp", FP),
        make_recipe("bf16", BF16),
        make_recipe("int", INT, _A8W8),
        make_recipe("int16", INT16, _A16W8),
    )
}
