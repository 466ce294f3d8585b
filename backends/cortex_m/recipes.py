"""The recipes of the Cortex-M backend: quantizer, passes, rounding model and scripts."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.backend_api import (
    Precision,
    Recipe,
    Script,
    find_calibration_problem,
    is_conversion,
    make_program_pass,
)

if TYPE_CHECKING:
    from executorch.exir import EdgeCompileConfig
    from torch.export import ExportedProgram
    from torch.fx import Node

    from harness import Built, Case

# The kernels multiply exact sums by a factor f = m * 2^-k with m of 31 bits, 1/2 <= m < 1. They
# round the product to a whole number of 2^-k steps, and that number to whole steps
# (requantize_cmsis in passes_utils.py, arm_nn_requantize of CMSIS-NN): the second rounding gets a
# number that is off by up to 2^-(k+1). f is the quotient of the scales of product and output. An
# output whose range is at least an eighth of the largest product of codes, 255 * 127, has
# f <= 2^-4; an addition has k >= 18, because its operands are shifted by 20 bits. The product of
# two small values has a larger f, which follows from their scales.
INT8_PRECISION = Precision(
    safety=2.0, samples=16, requantization=2.0**-5, rounds_products_twice=True
)


def make_quantizer(*, explicit_layout: bool = False) -> Any:
    """Make the PT2E quantizer: int8 activations, weights of convolutions per channel."""
    from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer

    return CortexMQuantizer(use_explicit_layout=explicit_layout)


def make_passes(cpu: str, *, explicit_layout: bool = False) -> list[Any]:
    """Make the pass that replaces quantized operators by kernels.

    Args:
        cpu: the processor, such as ``M55``; it selects vector instructions of CMSIS-NN.
        explicit_layout: use the experimental passes that make transpositions explicit.
    """
    from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
    from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig

    config = CortexMTargetConfig(cpu=CortexM[cpu])

    def replace_operators(program: ExportedProgram) -> ExportedProgram:
        manager = CortexMPassManager(
            program, target_config=config, use_explicit_layout=explicit_layout
        )
        transformed: ExportedProgram = manager.transform()
        return transformed

    return [make_program_pass(replace_operators)]


def make_edge_config() -> EdgeCompileConfig:
    """Make the configuration that keeps the operators for which there are kernels."""
    from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config

    return cortex_m_edge_compile_config()


def explain(partitioners: Sequence[Any], node: Node) -> str | None:
    """Say why an operator stays on a portable kernel; there are no partitioners.

    The quantizer only logs why it rejects a pattern.
    """
    from harness.backend_api import op_name

    name = op_name(node.target)
    if is_conversion(name):
        return "at the border between int8 kernels and float operators"
    if name not in _list_quantized_operators():
        return "the library has no kernel for this operator"
    return "the quantizer rejects these shapes, layouts or arguments, or operators around it"


@functools.cache
def _list_quantized_operators() -> frozenset[str]:
    """List the operators that the quantizer takes in some form, by their names in reports."""
    from executorch.backends.cortex_m.quantizer import quantizer_support as support

    from harness.backend_api import op_name

    patterns = support.CORTEX_M_QUANTIZER_SUPPORT_DICT
    names = {op_name(operator) for pattern in patterns for operator in pattern}
    # conv2d and softmax.int have other names in the edge dialect.
    return frozenset(names | {"aten.convolution.default", "aten._softmax.default"})


_NARROW = {"torch.float16", "torch.bfloat16"}


def _find_refusal(case: Case, built: Built) -> str | None:
    if case.dynamic_shapes is not None:
        return "the kernels take their sizes from the program: shapes are static"
    if narrow := {str(tensor.dtype) for tensor in (*built.state, *built.tensors)} & _NARROW:
        return f"{min(narrow)}: cortex_m::dequantize_per_tensor returns float32 only"
    return find_calibration_problem(case, built)


_PACKAGE = "executorch.backends.cortex_m"
_PREAMBLE = """\
def make_passes():
    class CortexMPasses(ExportedProgramPassBase):
        def call(self, exported_program):
            config = CortexMTargetConfig(cpu=CortexM.{cpu})
            manager = CortexMPassManager(
                exported_program, target_config=config, use_explicit_layout={explicit_layout}
            )
            return ExportedProgramPassResult(manager.transform(), True)

    return [CortexMPasses()]
"""
_RUN = """\
module = lowered.exported_program().module()
return [call_model(module, call, CHANGED) for call in CALLS]
"""


def make_script(cpu: str, *, explicit_layout: bool = False) -> Script:
    """Make the script of a recipe; the arguments are those of :func:`make_passes`."""
    return Script(
        imports=(
            f"from {_PACKAGE}.passes.cortex_m_pass_manager import CortexMPassManager",
            f"from {_PACKAGE}.edge_compile_config import cortex_m_edge_compile_config",
            f"from {_PACKAGE}.quantizer.quantizer import CortexMQuantizer",
            f"from {_PACKAGE}.target_config import CortexM, CortexMTargetConfig",
            "from executorch.exir.pass_base import ExportedProgramPassBase, "
            "ExportedProgramPassResult",
        ),
        transform_passes="make_passes()",
        edge_config="cortex_m_edge_compile_config()",
        quantizer=f"CortexMQuantizer(use_explicit_layout={explicit_layout})",
        preamble=_PREAMBLE.format(cpu=cpu, explicit_layout=explicit_layout),
        run=_RUN,
        ours="the harness executed the program from its bytes, its cortex_m operators on Arm's "
        "references; here the lowered graph runs in Python, without the program's planned memory",
    )


def make_recipe(name: str, cpu: str) -> Recipe:
    """Make the recipe for a processor."""
    return Recipe(
        name,
        INT8_PRECISION,
        # CortexMConv2DCheck of the quantizer takes convolutions of channels-last tensors only.
        channels_last=True,
        quantizer=make_quantizer,
        transform_passes=functools.partial(make_passes, cpu),
        edge_config=make_edge_config,
        unsupported=_find_refusal,
        explain=explain,
        script=make_script(cpu),
        like=("xnnpack:int8",),
    )


# The M55 has vectors (MVE): its linear layers take the sum of the weights. The M4 has the DSP
# extension and takes the bias (arm_fully_connected_s8 of CMSIS-NN).
RECIPES: dict[str, Recipe] = {
    recipe.name: recipe for recipe in (make_recipe("int8", "M55"), make_recipe("int8_m4", "M4"))
}
CPUS: dict[str, str] = {"int8": "M55", "int8_m4": "M4"}
