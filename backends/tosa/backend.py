"""The TOSA backend: its recipes, and how it executes their programs."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from backends.tosa.mxfp import FORMATS, BlockFormat
from backends.tosa.passes import PASSES
from backends.tosa.settings import SETTINGS
from backends.tosa.specifications import FP, INT, MXFP
from harness import Inputs
from harness.backend_api import (
    Availability,
    Execution,
    Lowered,
    Precision,
    Recipe,
    Script,
    find_calibration_problem,
)

if TYPE_CHECKING:
    from executorch.exir import EdgeCompileConfig
    from executorch.exir.backend.partitioner import Partitioner
    from torch.fx import Node

    from harness import Built, Case
    from harness.backend_api import (
        DelegateLoader,
        DelegatePayload,
        Encoding,
        OperatorSemantics,
        PayloadConstants,
        Program,
    )

DELEGATE = "TOSABackend"

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
INT_PRECISION = Precision(safety=2.0, samples=16)


def make_partitioners(specification: str) -> list[Partitioner]:
    """Make the Arm partitioner for a TOSA specification string."""
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner

    return [TOSAPartitioner(TosaCompileSpec(specification))]


def make_quantizer() -> Any:
    """Make the Arm PT2E quantizer: symmetric int8, weights per channel."""
    from executorch.backends.arm.quantizer import TOSAQuantizer, get_symmetric_quantization_config
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec

    quantizer = TOSAQuantizer(TosaCompileSpec(INT))
    quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True))
    return quantizer


def explain(partitioners: Sequence[Any], node: Node) -> str | None:
    """Explain why quantize and dequantize nodes at a partition's border are not delegated.

    The partitioner removes them without a reason (``_detag_boundary_nodes``).
    """
    from executorch.backends.arm.constants import DQ_OPS, Q_OPS

    if node.target not in (*Q_OPS, *DQ_OPS):
        return None
    return f"at the border of a delegate, and {INT} has no floats"


def _require_static_shapes(case: Case, built: Built) -> str | None:
    if case.dynamic_shapes is not None:
        return "TOSA 1.0 without the shape extension supports static shapes only"
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


def _make_quantizing_script() -> Script:
    plain = make_script(INT, quantizer="quantizer()")
    names = "TOSAQuantizer, get_symmetric_quantization_config"
    return replace(
        plain,
        imports=(*plain.imports, f"from {_ARM}.quantizer import {names}"),
        preamble=f"""\
def quantizer():
    arm_quantizer = TOSAQuantizer(TosaCompileSpec({INT!r}))
    arm_quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True))
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


class Tosa:
    """Runs delegate payloads on the reference model and fallback nodes on portable kernels."""

    name = "tosa"
    delegate = DELEGATE
    passes = PASSES
    settings = SETTINGS
    recipes = {
        "fp": Recipe(
            "fp",
            FP_PRECISION,
            partitioners=functools.partial(make_partitioners, FP),
            unsupported=_require_static_shapes,
            script=make_script(FP),
        ),
        "int": Recipe(
            "int",
            INT_PRECISION,
            quantizer=make_quantizer,
            partitioners=functools.partial(make_partitioners, INT),
            unsupported=_require_static_and_finite,
            explain=explain,
            # TOSA's integers have at most 48 bits: Arm's quantizer casts int64 inputs and results
            # (ConvertInt64OutputOpsToInt32Pass, InsertInt32CastsAfterInt64PlaceholdersPass).
            narrowed={"int64": "int32"},
            script=_make_quantizing_script(),
        ),
        **{each.name: make_mxfp_recipe(each) for each in FORMATS.values()},
    }

    @functools.cache  # noqa: B019  (one instance per process)
    def availability(self) -> Availability:
        """Import the reference model; an error is the reason why the backend is unavailable."""
        packages = ("tosa-tools", "executorch", "torch")
        try:
            import tosa_reference_model  # noqa: F401
        except Exception as error:
            reason = f"{error}; install the version of tosa-tools that pyproject.toml pins"
            return Availability(False, reason, packages=packages)
        return Availability(True, runtime="reference", packages=packages)

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Interpret the program; a program without a delegate runs natively."""
        from harness.backend_api import Interpreter, Program, RuntimeKernels, run_native

        parsed = Program(program)
        if not parsed.plan.delegates:
            return Execution(run_native(program, calls), "native")
        interpreter = Interpreter(parsed, {DELEGATE: self.loader(parsed)}, RuntimeKernels())
        return Execution([interpreter(inputs) for inputs in calls], "reference")

    def loader(self, program: Program) -> DelegateLoader:
        """Return the loader that executes payloads on the reference model, in a child process."""
        from backends.tosa.reference import load

        return load

    def constants(self, payload: DelegatePayload) -> PayloadConstants:
        """Return the constants that the payload's graph contains."""
        from backends.tosa.graph import read_graph
        from harness.backend_api import PayloadConstants

        tensors = read_graph(payload.data).tensors.values()
        return PayloadConstants([tensor.data for tensor in tensors if tensor.data])

    def describe(self, payload: DelegatePayload) -> Iterable[str]:
        """List the operators of a payload."""
        from backends.tosa.listing import list_operators

        return list_operators(payload.data)


BACKEND = Tosa()
