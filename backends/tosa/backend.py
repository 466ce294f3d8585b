"""The TOSA recipes and how their programs are executed."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from backends.tosa.mxfp import FORMATS, BlockFormat
from backends.tosa.passes import PASSES
from backends.tosa.specifications import FP, INT, MXFP
from harness import (
    Availability,
    Execution,
    Inputs,
    Lowered,
    Precision,
    Recipe,
    Script,
    uncalibratable,
)

if TYPE_CHECKING:
    from executorch.exir import EdgeCompileConfig
    from executorch.exir.backend.partitioner import Partitioner
    from torch.fx import Node

    from harness import (
        Built,
        Case,
        DelegateLoader,
        DelegatePayload,
        Encoding,
        Held,
        Program,
        Semantics,
    )

DELEGATE = "TOSABackend"

# What the TOSA 1.0 specification allows (chapters 2.4 and 2.6, "Precision Requirements"), where
# it is wider than our default. Its allowance for SIN and COS, 2^-11.5, is not used: the model
# that executes here is far better, and a wrong sine must not hide behind it.
FP_PRECISION = Precision(
    functions={"erf": 5, "log": 5, "tanh": 12},
    # EXP and SIGMOID may err by 2|x| units: a backward error of the argument.
    argument_roundings=2.0,
    # A division is RECIPROCAL, one unit or two roundings, and MUL.
    division_roundings=3.0,
)
INT_PRECISION = Precision(safety=2.0, samples=16)


def partitioners(specification: str) -> list[Partitioner]:
    """The Arm partitioner for one TOSA specification string."""
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner

    return [TOSAPartitioner(TosaCompileSpec(specification))]


def quantizer() -> Any:
    """The Arm PT2E quantizer: symmetric int8, weights per channel."""
    from executorch.backends.arm.quantizer import (
        TOSAQuantizer,
        get_symmetric_quantization_config,
    )
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec

    made = TOSAQuantizer(TosaCompileSpec(INT))
    made.set_global(get_symmetric_quantization_config(is_per_channel=True))
    return made


def explain(partitioners: Sequence[Any], node: Node) -> str | None:
    """The partitioner takes nodes at the border back without a word (``_detag_boundary_nodes``)."""
    from executorch.backends.arm.constants import DQ_OPS, Q_OPS

    if node.target not in (*Q_OPS, *DQ_OPS):
        return None
    return f"at the border of a delegate, and {INT} has no floats"


def _static_only(case: Case, built: Built) -> str | None:
    if case.dynamic_shapes is not None:
        return "TOSA 1.0 without the shape extension has static shapes only"
    if any(tensor.numel() == 0 for tensor in built.tensors):
        return "TOSA has no tensors of size 0: every dimension is at least 1"
    return None


def _static_and_finite_only(case: Case, built: Built) -> str | None:
    return uncalibratable(case, built) or _static_only(case, built)


def unverified_edge() -> EdgeCompileConfig:
    """The operators of MX layers take codes, scales and floats, which edge programs may not."""
    from executorch.exir import EdgeCompileConfig

    return EdgeCompileConfig(_check_ir_validity=False)


def _mxfp_semantics() -> Semantics:
    from backends.tosa import semantics

    return semantics.mxfp()


_ARM = "executorch.backends.arm"

# Upstream's own way of executing what it lowered: what is left over runs on ATen. Here, a program
# without a delegate runs natively.
_RUN = """\
module = lowered.exported_program().module()
if "executorch_call_delegate" not in module.code:
    program = bytes(lowered.to_executorch().buffer)
    return execute(program, CALLS, "", Path(__file__).with_suffix(".pte"))
found = []
with TosaReferenceModelDispatch():
    for call in CALLS:
        found.append(returned(module, call, CHANGED))
return found
"""


def script(specification: str, **more: str) -> Script:
    """The script of a recipe for one TOSA specification string."""
    return Script(
        imports=(
            f"from {_ARM}.test.runner_utils import TosaReferenceModelDispatch",
            f"from {_ARM}.tosa.compile_spec import TosaCompileSpec",
            f"from {_ARM}.tosa.partitioner import TOSAPartitioner",
        ),
        partitioners=f"[TOSAPartitioner(TosaCompileSpec({specification!r}))]",
        run=_RUN,
        ours="the program was executed from its bytes, each delegate call on the TOSA reference "
        "model; here the lowered graph runs in Python, as in upstream's tests, which knows nothing "
        "of the memory that the program plans",
        **more,
    )


def _quantizing() -> Script:
    plain = script(INT, quantizer="quantizer()")
    names = "TOSAQuantizer, get_symmetric_quantization_config"
    return replace(
        plain,
        imports=(*plain.imports, f"from {_ARM}.quantizer import {names}"),
        preamble=f"""\
def quantizer():
    made = TOSAQuantizer(TosaCompileSpec({INT!r}))
    made.set_global(get_symmetric_quantization_config(is_per_channel=True))
    return made
""",
    )


def _blocks() -> Script:
    plain = script(MXFP, edge_config="EdgeCompileConfig(_check_ir_validity=False)")
    register = f"import {_ARM}.ao_ext  # registers the operators of MX layers"
    return replace(plain, imports=(*plain.imports, register))


def mxfp(made: BlockFormat) -> Recipe:
    """The recipe that converts layers to an MX format, weights and activations alike."""

    def unsupported(case: Case, built: Built) -> str | None:
        return _static_only(case, built) or made.unsupported(case, built)

    def verify(lowered: Lowered) -> str | None:
        from backends.tosa import mxfp_graph

        return mxfp_graph.verify(made, lowered)

    def encodings(lowered: Lowered) -> list[Encoding]:
        from backends.tosa import mxfp_graph

        return mxfp_graph.encodings(made, lowered)

    return Recipe(
        made.name,
        FP_PRECISION,
        quantize_weights=made,
        partitioners=functools.partial(partitioners, MXFP),
        edge_config=unverified_edge,
        unsupported=unsupported,
        require_delegation=True,
        verify=verify,
        encodings=encodings,
        semantics=_mxfp_semantics,
        script=_blocks(),
    )


class Tosa:
    """Runs the delegate payloads on the reference model, what is left over around them."""

    name = "tosa"
    delegate = DELEGATE
    passes = PASSES
    recipes = {
        "fp": Recipe(
            "fp",
            FP_PRECISION,
            partitioners=functools.partial(partitioners, FP),
            unsupported=_static_only,
            script=script(FP),
        ),
        "int": Recipe(
            "int",
            INT_PRECISION,
            quantizer=quantizer,
            partitioners=functools.partial(partitioners, INT),
            unsupported=_static_and_finite_only,
            explain=explain,
            # TOSA's integers have at most 48 bits: Arm's quantizer casts int64 inputs and results
            # (ConvertInt64OutputOpsToInt32Pass, InsertInt32CastsAfterInt64PlaceholdersPass).
            narrowed={"int64": "int32"},
            script=_quantizing(),
        ),
        **{made.name: mxfp(made) for made in FORMATS.values()},
    }

    @functools.cache  # noqa: B019  (one instance per process)
    def availability(self) -> Availability:
        """Import the Arm backend and the reference model; the first error is the reason."""
        packages = ("tosa-tools", "executorch", "torch")
        try:
            import tosa_reference_model  # noqa: F401
        except Exception as error:
            reason = f"{error}; install tosa-tools in the version that pyproject.toml pins"
            return Availability(False, reason, packages=packages)
        return Availability(True, runtime="reference", packages=packages)

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Interpret the program; a program without a delegate runs natively."""
        from harness import Interpreter, Program, RuntimeKernels, run_native

        parsed = Program(program)
        if not parsed.plan.delegates:
            return Execution(run_native(program, calls), "native")
        interpreter = Interpreter(parsed, {DELEGATE: self.loader(parsed)}, RuntimeKernels())
        return Execution([interpreter(inputs) for inputs in calls], "reference")

    def loader(self, program: Program) -> DelegateLoader:
        """Executes payloads on the reference model, in a child process."""
        from backends.tosa.reference import load

        return load

    def constants(self, payload: DelegatePayload) -> Held:
        """The constants of the graph, which are in it."""
        from backends.tosa.graph import read
        from harness import Held

        return Held([tensor.data for tensor in read(payload.data).tensors.values() if tensor.data])

    def describe(self, payload: DelegatePayload) -> Iterable[str]:
        """The operators of a payload."""
        from backends.tosa.listing import listing

        return listing(payload.data)


BACKEND = Tosa()
