"""The Metal recipes and how their programs are executed."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from backends.metal.contract.layout import SUPPORTED
from backends.metal.contract.rule import DELEGATE, READ
from backends.metal.quantization import int4
from harness import (
    Availability,
    Execution,
    Inputs,
    InspectedCell,
    Precision,
    Recipe,
    Script,
    describe_unverified,
)

if TYPE_CHECKING:
    from executorch.exir.backend.partitioner import Partitioner

    from harness import (
        Built,
        Case,
        DelegateLoader,
        DelegatePayload,
        OperatorSemantics,
        PayloadConstants,
        Program,
    )

# Bounds of Metal's precise functions (Metal Shading Language Specification, "Numerical
# Compliance", single precision); division, sqrt and rsqrt round correctly. erf is c10's, within an
# ULP (c10/metal/special_math.h). Variances are Welford's (welford_combine in reduction_utils.h).
FLOAT32 = Precision(
    functions={"atan": 5.0, "atanh": 5.0, "tanh": 5.0, "atan2": 6.0, "tan": 6.0, "pow": 16.0},
    running_means=True,
)

# Generated code adds up in float32 (DTYPE_TO_COMPUTATION_DTYPE in Inductor's codegen/mps.py), and
# so do the runtime's kernels, but scatter_add, index_add and index_put add atomically in memory.
_FLOAT32_SUMS = frozenset(
    """
    sum mean prod var std var_mean std_mean linalg_vector_norm logsumexp _softmax _log_softmax
    native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit
    _native_batch_norm_legit_no_training layer_norm group_norm rms_norm _fused_rms_norm
    avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d
    adaptive_avg_pool1d upsample_linear1d upsample_bilinear2d upsample_bicubic2d
    upsample_trilinear3d grid_sampler_2d
    mm bmm addmm baddbmm mv dot linear convolution _scaled_dot_product_flash_attention_for_cpu
    """.split()
)

# Kernels load bfloat16 as float32 and round at the store (load and store in codegen/mps.py): an
# elementary function errs by that rounding, its argument by one of float32, 2**-16 of it.
BFLOAT16 = Precision(
    function_ulps=0.5,
    argument_roundings=2.0**-16,
    float32_sums=_FLOAT32_SUMS,
    running_means=True,
)


# Up to 32 codes are summed before scale and offset meet (op_linear_4bit.mm: 16 a thread, as in
# MLX's qmv; a CPU reference takes a whole group).
INT4 = replace(FLOAT32, block_roundings=33.0)


def partitioners() -> list[Partitioner]:
    """The delegate's partitioner; without Apple hardware its code is generated here."""
    from backends.metal.generation import generate, upstream

    generate.install()
    return upstream.partitioners()


def _unsupported(case: Case, built: Built) -> str | None:
    """Whether the runtime has no tensor for an input or a weight."""
    for tensor in (*built.tensors, *built.state):
        name = str(tensor.dtype).removeprefix("torch.")
        if name not in SUPPORTED:
            return f"the runtime has no tensors of {name} (validate_dtype in utils.cpp)"
    if built.is_row_major(dense_only=True):
        return None
    return (
        "the delegate takes row-major inputs only: it copies them to row-major tensors, and "
        "aoti_torch_copy_ (memory.cpp) refuses other strides"
    )


def _int4_semantics() -> OperatorSemantics:
    from backends.metal import semantics

    return semantics.int4()


_METAL = "executorch.backends.apple.metal"

SCRIPT = Script(
    imports=(
        f"from {_METAL}.metal_backend import MetalBackend",
        f"from {_METAL}.metal_partitioner import MetalPartitioner",
    ),
    partitioners=(
        '[MetalPartitioner([MetalBackend.generate_method_name_compile_spec("forward")])]'
    ),
    delegate=DELEGATE,
    ours="Metal code was generated without Apple hardware, checked against the runtime's contract "
    "and executed on the CPU",
)


def _recipe(name: str, precision: Precision, dtype: str = "float32") -> Recipe:
    return Recipe(
        name,
        precision,
        dtype=dtype,
        partitioners=partitioners,
        unsupported=_unsupported,
        script=SCRIPT,
    )


class Metal:
    """Runs what Inductor generated: natively where the runtime has the delegate, else the
    generated wrapper and shaders themselves, on the CPU and against the runtime's contract."""

    name = "metal"
    delegate = DELEGATE
    recipes = {
        "fp32": _recipe("fp32", FLOAT32),
        "bf16": _recipe("bf16", BFLOAT16, "bfloat16"),
        "int4": Recipe(
            "int4",
            INT4,
            partitioners=partitioners,
            quantize_weights=int4,
            unsupported=int4.unsupported,
            require_delegation=True,
            semantics=_int4_semantics,
            script=replace(
                SCRIPT,
                imports=(
                    *SCRIPT.imports,
                    "import torchao.experimental.quant_api  # registers operators",
                ),
            ),
        ),
    }

    @functools.cache  # noqa: B019  (one instance per process)
    def availability(self) -> Availability:
        """Ask the runtime for the delegate, then for a compiler for the shaders."""
        packages = ("executorch", "torch")
        from harness import list_native_backends

        if DELEGATE in list_native_backends():
            return Availability(True, runtime="native", packages=packages)
        from backends.metal.host.toolchain import compiler_version

        if importlib.util.find_spec("executorch.backends.apple.metal") is None:
            return Availability(False, "executorch's wheel has no Metal backend", packages=packages)
        try:
            tools = compiler_version().partition("\n")[0]
        except Exception as error:
            return Availability(False, f"{error}", packages=packages, can_lower=True)
        unverified = describe_unverified(READ, "the runtime's contract")
        return Availability(
            True, runtime="emulated", packages=packages, unverified=unverified, tools=tools
        )

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Run natively where possible; a program without a delegate always is.

        Emulated, shaders that were not generated in this process run in a child.
        """
        from backends.metal.generation.own import is_own
        from harness import Program, list_native_backends, run_native
        from harness.execution import foreign_programs

        delegates = Program(program).delegates
        if not delegates or DELEGATE in list_native_backends():
            return Execution(run_native(program, calls), "native")
        if not foreign_programs.is_child_process() and not all(map(is_own, delegates)):
            return foreign_programs.execute(self.name, program, calls)
        return self.emulate(program, calls)

    def emulate(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Interpret the program, each delegate call on the host, in this process."""
        from harness import Interpreter, Program, RuntimeKernels

        parsed = Program(program)
        interpreter = Interpreter(parsed, {DELEGATE: self.loader(parsed)}, RuntimeKernels())
        return Execution([interpreter(inputs) for inputs in calls], "emulated")

    def loader(self, program: Program) -> DelegateLoader:
        """Executes payloads in this process: native code, compiled from what they bring."""
        from backends.metal.delegate import load

        return load

    def constants(self, payload: DelegatePayload) -> PayloadConstants:
        """The constants that its generated code names, in place of the two blobs."""
        from backends.metal.delegate import held

        return held(payload)

    def describe(self, payload: DelegatePayload) -> Iterable[str]:
        """Wrapper and kernels of a payload that was generated without Apple hardware."""
        from backends.metal.delegate import code_of
        from backends.metal.inspection import listing

        return listing(code_of(payload))

    def inspect(self, attempt: InspectedCell) -> Iterable[str]:
        """Wrapper calls, kernels, and what the contract says of them."""
        from backends.metal.inspection import inspect

        return inspect(attempt)


BACKEND = Metal()
