"""The Metal backend: its recipes, and how it executes their programs."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from backends.metal.contract.layout import SUPPORTED
from backends.metal.contract.rule import CHECKED_RELEASES, DELEGATE
from backends.metal.quantization import int4
from harness import Inputs
from harness.backend_api import (
    Availability,
    Execution,
    InspectedCell,
    LoweringCode,
    Precision,
    Recipe,
    Script,
    describe_unverified,
)

if TYPE_CHECKING:
    from executorch.exir.backend.partitioner import Partitioner

    from harness import Built, Case
    from harness.backend_api import (
        DelegateLoader,
        DelegatePayload,
        OperatorClaim,
        OperatorSemantics,
        PayloadConstants,
        Program,
    )

# Bounds of Metal's precise functions (Metal Shading Language Specification, "Numerical
# Compliance", single precision); division, sqrt and rsqrt round correctly. erf is c10's, within one
# ULP (c10/metal/special_math.h). Variances use Welford's method (welford_combine in
# reduction_utils.h).
FLOAT32 = Precision(
    functions={"atan": 5.0, "atanh": 5.0, "tanh": 5.0, "atan2": 6.0, "tan": 6.0, "pow": 16.0},
    running_means=True,
)

# Generated code and the runtime's kernels sum in float32 (DTYPE_TO_COMPUTATION_DTYPE in Inductor's
# codegen/mps.py), but scatter_add, index_add and index_put add atomically in memory.
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

# Kernels load bfloat16 as float32 and round when they store (load and store in codegen/mps.py): an
# elementary function errs by that rounding, its argument by a float32 rounding, 2**-16 of it.
BFLOAT16 = Precision(
    function_ulps=0.5,
    argument_roundings=2.0**-16,
    float32_sums=_FLOAT32_SUMS,
    running_means=True,
)


# Up to 32 codes are summed before scale and offset are applied (op_linear_4bit.mm: 16 in a thread,
# as in MLX's qmv; a CPU reference sums a whole group).
INT4 = replace(FLOAT32, block_roundings=33.0)


def make_partitioners() -> list[Partitioner]:
    """Make the delegate's partitioner; without Apple hardware, generate its code on this host."""
    from backends.metal.generation import generate, upstream

    generate.install()
    return upstream.partitioners()


def _unsupported(case: Case, built: Built) -> str | None:
    """Say why the runtime cannot represent an input or a weight, or None."""
    for tensor in (*built.tensors, *built.state):
        name = str(tensor.dtype).removeprefix("torch.")
        if name not in SUPPORTED:
            return f"the runtime does not support tensors of {name} (validate_dtype in utils.cpp)"
    if built.is_row_major(dense_only=True):
        return None
    return (
        "the delegate takes row-major inputs only: it copies them to row-major tensors, and "
        "aoti_torch_copy_ (memory.cpp) refuses other strides"
    )


def _int4_semantics() -> OperatorSemantics:
    from backends.metal import semantics

    return semantics.make_int4_semantics()


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
    ours="the harness generated Metal code without Apple hardware, checked it against the "
    "runtime's contract and executed it on the CPU",
)


def _make_recipe(name: str, precision: Precision, dtype: str = "float32") -> Recipe:
    return Recipe(
        name,
        precision,
        dtype=dtype,
        partitioners=make_partitioners,
        unsupported=_unsupported,
        script=SCRIPT,
    )


class Metal:
    """Executes Inductor's code natively where the runtime has the delegate.

    Otherwise it executes the generated wrapper and shaders on the CPU, and checks each call against
    the runtime's contract.
    """

    name = "metal"
    delegate = DELEGATE
    lowering_code = LoweringCode(
        (
            "executorch.backends.apple.metal",
            "executorch.backends.aoti",
            "torch._inductor.codegen.mps",
            "torch._inductor.codegen.mps_device_op_overrides",
            "torch._inductor.codegen.cpp_wrapper_mps",
        )
    )
    # Not fp16: the runtime refuses float16 tensors (validate_dtype in runtime/shims/utils.cpp).
    recipes = {
        "fp32": _make_recipe("fp32", FLOAT32),
        "bf16": _make_recipe("bf16", BFLOAT16, "bfloat16"),
        "int4": Recipe(
            "int4",
            INT4,
            partitioners=make_partitioners,
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
        """Look for the delegate in the runtime, then for a compiler for the shaders."""
        packages = ("executorch", "torch")
        from harness.backend_api import list_native_backends

        if DELEGATE in list_native_backends():
            return Availability(True, runtime="native", packages=packages)
        from backends.metal.host.toolchain import compiler_version

        if importlib.util.find_spec("executorch.backends.apple.metal") is None:
            return Availability(False, "executorch's wheel has no Metal backend", packages=packages)
        try:
            tools = compiler_version().partition("\n")[0]
        except Exception as error:
            return Availability(False, f"{error}", packages=packages, can_lower=True)
        unverified = describe_unverified(CHECKED_RELEASES, "the runtime's contract")
        return Availability(
            True, runtime="emulated", packages=packages, unverified=unverified, tools=tools
        )

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Run natively where possible; a program without a delegate always runs natively.

        When emulated, shaders that this process did not generate run in a child process.
        """
        from backends.metal.generation.own import is_own
        from harness.backend_api import Program, list_native_backends, run_native
        from harness.execution import foreign_programs

        delegates = Program(program).delegates
        if not delegates or DELEGATE in list_native_backends():
            return Execution(run_native(program, calls), "native")
        if not foreign_programs.is_child_process() and not all(map(is_own, delegates)):
            return foreign_programs.execute(self.name, program, calls)
        return self.emulate(program, calls)

    def emulate(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Interpret the program in this process, with each delegate call on the host."""
        from harness.backend_api import Interpreter, Program, RuntimeKernels

        parsed = Program(program)
        interpreter = Interpreter(parsed, {DELEGATE: self.loader(parsed)}, RuntimeKernels())
        return Execution([interpreter(inputs) for inputs in calls], "emulated")

    def loader(self, program: Program) -> DelegateLoader:
        """Return the loader: it compiles a payload's source to native code, for this process."""
        from backends.metal.delegate import load

        return load

    def constants(self, payload: DelegatePayload) -> PayloadConstants:
        """Return the constants of the generated code, in place of the payload's two blobs."""
        from backends.metal.delegate import read_constants

        return read_constants(payload)

    def claim_operators(self, recipe: Recipe) -> Mapping[str, OperatorClaim]:
        """Return the operators of Inductor's tables and of the delegate's kernels."""
        from backends.metal.claims import list_claims

        return list_claims()

    def describe(self, payload: DelegatePayload) -> Iterable[str]:
        """List wrapper and kernels of a payload that was generated without Apple hardware."""
        from backends.metal.delegate import read_code
        from backends.metal.inspection import list_code

        return list_code(read_code(payload))

    def inspect(self, attempt: InspectedCell) -> Iterable[str]:
        """List the wrapper, its kernels, and the contract check of each call."""
        from backends.metal.inspection import inspect

        return inspect(attempt)


BACKEND = Metal()
