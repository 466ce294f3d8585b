"""The recipes of the TOSA backend: specifications, quantizers, rounding models and scripts."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from backends.tosa.mxfp import FORMATS, BlockFormat
from backends.tosa.specifications import (
    BF16,
    FP,
    FP_1_1,
    INT,
    INT16,
    INT_1_1,
    INT_U55,
    MXFP,
)
from harness.backend_api import Lowered, Precision, Recipe, Script, find_calibration_problem

if TYPE_CHECKING:
    from executorch.exir import EdgeCompileConfig
    from executorch.exir.backend.partitioner import Partitioner
    from torch.fx import Node

    from harness import Built, Case
    from harness.backend_api import Encoding, OperatorSemantics

# Errors that the TOSA 1.0 specification allows (chapters 2.4 and 2.6, "Precision Requirements")
# where they exceed our defaults. Its allowance for SIN and COS, 2^-11.5, is not used: the reference
# model is far more accurate, and such a bound would miss a wrong sine.
FP_PRECISION = Precision(
    functions={"erf": 5, "log": 5, "tanh": 12},
    # EXP and SIGMOID may err by 2|x| units, as if the argument had been rounded.
    argument_roundings=2.0,
    # A division is RECIPROCAL (one unit, or two roundings) and MUL.
    division_roundings=3.0,
)
# RESCALE takes a multiplier of 31 bits, and a sum of int8 products is exact. Arm fuses a RESCALE to
# int8 and the next one to int32 between sums (FuseConsecutiveRescalesPass), and brings the operands
# of a maximum or minimum to the smaller scale before it (InsertRescaleInt32Pass).
INT_PRECISION = Precision(
    safety=2.0,
    samples=16,
    requantization=2.0**-8,
    fused_requantizations=frozenset("add sub rsub neg maximum minimum".split()),
)

# A sum of products of int16 and int8 has 48 bits, and a RESCALE of 48 bits takes a multiplier of 15
# bits (_compute_multiplier_and_shift in Arm's op_tosa_rescale.py, scale_width 16): between 2^14 and
# 2^15, rounded by up to a half, it errs by up to 2^-15. Of a code up to 32,767 that is one step, in
# addition to the rounding of the result.
INT16_PRECISION = replace(INT_PRECISION, step=2.0, requantization=0.0)

# The specification states these errors in units of the operator's own type. CONV2D, MATMUL,
# AVG_POOL2D and REDUCE_SUM add up bf16 in fp32 (acc_t) and round once. Arm rewrites other sums,
# such as those of a mean or a softmax, into several of these operators.
BF16_PRECISION = replace(
    FP_PRECISION,
    float32_sums=frozenset("sum mm bmm mv dot addmm baddbmm linear convolution avg_pool2d".split()),
)

# Arm's configurations of its quantizer, by the bits of activations and weights.
_A8W8 = "get_symmetric_quantization_config"
_A16W8 = "get_symmetric_a16w8_quantization_config"


def make_partitioners(specification: str) -> list[Partitioner]:
    """Make the Arm partitioner for a TOSA specification string."""
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner

    return [TOSAPartitioner(TosaCompileSpec(specification))]


def make_quantizer(specification: str, config: str) -> Any:
    """Make the Arm PT2E quantizer for a TOSA specification string.

    Args:
        specification: the specification, of an integer profile.
        config: the name of Arm's function that makes the configuration; weights per channel.
    """
    from executorch.backends.arm import quantizer as arm
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec

    quantizer = arm.TOSAQuantizer(TosaCompileSpec(specification))
    quantizer.set_global(getattr(arm, config)(is_per_channel=True))
    return quantizer


def keep_float(quantizer: Any, names: Sequence[str]) -> Any:
    """Let a quantizer leave the modules of these names in float."""
    for name in names:
        quantizer = quantizer.set_module_name(name, None)
    return quantizer


def explain(specification: str, partitioners: Sequence[Any], node: Node) -> str | None:
    """Explain why quantize and dequantize nodes at a partition's border are not delegated.

    The partitioner removes them without a reason (``_detag_boundary_nodes``).
    """
    from executorch.backends.arm.constants import DQ_OPS, Q_OPS

    if node.target not in (*Q_OPS, *DQ_OPS):
        return None
    return f"at the border of a delegate, and {specification} has no floats"


def _require_static_shapes(case: Case, built: Built) -> str | None:
    if case.dynamic_shapes is not None:
        return "TOSA without the shape extension supports static shapes only"
    if any(tensor.numel() == 0 for tensor in built.tensors):
        return "TOSA has no tensors of size 0: every dimension is at least 1"
    return None


def _require_static_and_finite(case: Case, built: Built) -> str | None:
    return find_calibration_problem(case, built) or _require_static_shapes(case, built)


def make_unverified_edge_config() -> EdgeCompileConfig:
    """Disable the edge verifier, which rejects the mixed dtypes of operators of MX layers."""
    from executorch.exir import EdgeCompileConfig

    return EdgeCompileConfig(_check_ir_validity=False)


def _make_mxfp_semantics() -> OperatorSemantics:
    from backends.tosa import semantics

    return semantics.make_mxfp_semantics()


_ARM = "executorch.backends.arm"

# Upstream's own way to execute a lowered program: fallback nodes run on ATen. A program without a
# delegate runs natively, as here.
_RUN = """\
module = lowered.exported_program().module()
if "executorch_call_delegate" not in module.code:
    program = bytes(lowered.to_executorch().buffer)
    return execute(program, CALLS, "", Path(__file__).with_suffix(".pte"))
results = []
with TosaReferenceModelDispatch():
    for call in CALLS:
        results.append(call_model(module, call, CHANGED))
return results
"""


def make_script(specification: str, **more: Any) -> Script:
    """Make the script of a recipe for a TOSA specification string."""
    return Script(
        imports=(
            f"from {_ARM}.test.runner_utils import TosaReferenceModelDispatch",
            f"from {_ARM}.tosa.compile_spec import TosaCompileSpec",
            f"from {_ARM}.tosa.partitioner import TOSAPartitioner",
        ),
        partitioners=f"[TOSAPartitioner(TosaCompileSpec({specification!r}))]",
        run=_RUN,
        ours="the harness executed the program from its bytes, each delegate call on the TOSA "
        "reference model; here the lowered graph runs in Python, as in upstream's tests, without "
        "the program's planned memory",
        **more,
    )


def _make_quantizing_script(specification: str, config: str) -> Script:
    plain = make_script(specification, quantizer="quantizer()")
    return replace(
        plain,
        imports=(*plain.imports, f"from {_ARM}.quantizer import TOSAQuantizer, {config}"),
        preamble=f"""\
def quantizer():
    arm_quantizer = TOSAQuantizer(TosaCompileSpec({specification!r}))
    arm_quantizer.set_global({config}(is_per_channel=True))
    return arm_quantizer
""",
    )


def _make_mxfp_script() -> Script:
    plain = make_script(MXFP, edge_config="EdgeCompileConfig(_check_ir_validity=False)")
    register = f"import {_ARM}.ao_ext  # registers the operators of MX layers"
    return replace(plain, imports=(*plain.imports, register))


def make_mxfp_recipe(block_format: BlockFormat) -> Recipe:
    """Make the recipe that converts weights and activations of layers to an MX format."""

    def unsupported(case: Case, built: Built) -> str | None:
        return _require_static_shapes(case, built) or block_format.unsupported(case, built)

    def verify(lowered: Lowered) -> str | None:
        from backends.tosa import mxfp_graph

        return mxfp_graph.verify(block_format, lowered)

    def encodings(lowered: Lowered) -> list[Encoding]:
        from backends.tosa import mxfp_graph

        return mxfp_graph.read_encodings(block_format, lowered)

    return Recipe(
        block_format.name,
        FP_PRECISION,
        quantize_weights=block_format,
        partitioners=functools.partial(make_partitioners, MXFP),
        edge_config=make_unverified_edge_config,
        unsupported=unsupported,
        require_delegation=True,
        verify=verify,
        encodings=encodings,
        semantics=_make_mxfp_semantics,
        script=_make_mxfp_script(),
    )


def make_float_recipe(
    name: str,
    specification: str,
    precision: Precision = FP_PRECISION,
    dtype: str = "float32",
) -> Recipe:
    """Make the recipe of a floating-point specification."""
    return Recipe(
        name,
        precision,
        dtype,
        partitioners=functools.partial(make_partitioners, specification),
        unsupported=_require_static_shapes,
        script=make_script(specification),
    )


def make_integer_recipe(
    name: str, specification: str, precision: Precision = INT_PRECISION, config: str = _A8W8
) -> Recipe:
    """Make the recipe of an integer specification.

    Args:
        name: the recipe's name.
        specification: the specification string.
        precision: its rounding model.
        config: as in :func:`make_quantizer`.
    """
    return Recipe(
        name,
        precision,
        quantizer=functools.partial(make_quantizer, specification, config),
        partitioners=functools.partial(make_partitioners, specification),
        unsupported=_require_static_and_finite,
        explain=functools.partial(explain, specification),
        keep_float=keep_float,
        # TOSA's integers have at most 48 bits: Arm's quantizer casts int64 inputs and results
        # (ConvertInt64OutputOpsToInt32Pass, InsertInt32CastsAfterInt64PlaceholdersPass).
        narrowed={"int64": "int32"},
        script=_make_quantizing_script(specification, config),
    )


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        make_float_recipe("fp", FP),
        make_float_recipe("fp_1_1", FP_1_1),
        make_float_recipe("bf16", BF16, BF16_PRECISION, "bfloat16"),
        make_integer_recipe("int", INT),
        make_integer_recipe("int_1_1", INT_1_1),
        make_integer_recipe("int_u55", INT_U55),
        make_integer_recipe("int16", INT16, INT16_PRECISION, _A16W8),
        *map(make_mxfp_recipe, FORMATS.values()),
    )
}
