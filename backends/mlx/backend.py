"""The MLX backend: its recipes, and how it executes their programs."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.mlx import codegen
from backends.mlx.payload.graph import DELEGATE
from backends.mlx.quantization import AFFINE, MlxWeightFormat, mxfp8, nvfp4
from harness import Inputs
from harness.backend_api import (
    Availability,
    Execution,
    InspectedCell,
    KnownPass,
    Lowered,
    LoweringCode,
    Precision,
    Recipe,
    Script,
    describe_installed,
    describe_unverified,
    has_module,
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
        OperatorClaim,
        Program,
    )

# argument_roundings: mlx's exp multiplies its argument by a rounded log2(e) and rounds the product
# (cpu/simd/math.h). division_roundings: rsqrt divides by a rounded root (cpu/simd/base_simd.h), and
# softmax multiplies by a rounded reciprocal (cpu/softmax.cpp, metal/kernels/softmax.h).
FLOAT32 = Precision(argument_roundings=2.0, division_roundings=2.0)

# Accumulated in float32 and rounded once, on the CPU (simd_gemm.h, conv.cpp, fast.cpp) and in Metal
# (steel_gemm_fused.metal, layer_norm.metal, rms_norm.metal, logsumexp.h).
_FLOAT32_SUMS = frozenset(
    """
    mm bmm addmm baddbmm mv dot linear convolution native_layer_norm layer_norm native_group_norm
    group_norm rms_norm _fused_rms_norm logsumexp _scaled_dot_product_flash_attention_for_cpu
    """.split()
)

# Functions of bfloat16 are computed in float32 and rounded once, on the CPU (types/bf16.h) and by
# Metal's kernels (bf16_math.h); a sigmoid is four operations, each rounded (unary_ops.h).
BFLOAT16 = Precision(
    function_ulps=0.5,
    functions={"sigmoid": 2.0},
    division_roundings=2.0,
    float32_sums=_FLOAT32_SUMS,
)

# The same on the CPU (types/fp16.h). Metal's own functions of half err by one ULP (Metal Shading
# Language Specification 2.0, table 38), so its sigmoid errs by 2.5.
FLOAT16 = Precision(
    function_ulps=1.0,
    functions={"sigmoid": 2.5},
    division_roundings=2.0,
    float32_sums=_FLOAT32_SUMS,
)

# Up to 32 codes are summed before scale and offset are applied, whatever their bits (qdot in
# metal/kernels/quantized.h takes at most the codes of a group of 32 at once).
AFFINE_PRECISION = replace(FLOAT32, block_roundings=33.0)


def make_partitioners() -> list[Partitioner]:
    """Make the delegate's partitioner; it takes no options."""
    codegen.install()
    from executorch.backends.mlx import MLXPartitioner

    return [MLXPartitioner()]


def make_passes() -> list[Any]:
    """Make the delegate's default passes; the last one makes operations write in place."""
    codegen.install()
    from executorch.backends.mlx.passes import get_default_passes

    return list(get_default_passes())


def make_edge_config() -> EdgeCompileConfig:
    """Allow in-place edge operators, which are not core ATen, and disable dim orders."""
    from executorch.exir import EdgeCompileConfig

    return EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)


def explain(partitioners: Sequence[Any], node: Node) -> str | None:
    """Return the reason that the delegate's program builder gives for rejecting a node."""
    for partitioner in partitioners:
        # Releases before 1.5.0 keep no reasons.
        reasons = getattr(partitioner.supported_ops, "_unsupported_reason", {})
        for rejected, reason in reasons.items():
            if rejected.name == node.name:
                # A handler's traceback follows; addresses differ in every process.
                message = reason.partition("\nTraceback")[0].rstrip(".")
                return re.sub(r"<function (\S+) at 0x[0-9a-f]+>", r"\1", message)
    return None


def _require_row_major(case: Case, built: Built) -> str | None:
    if built.is_row_major():
        return None
    return "the delegate takes row-major inputs only: its lowering refuses other strides"


@functools.cache
def _make_script() -> Script:
    return Script(
        imports=(
            "from executorch.backends.mlx import MLXPartitioner",
            "from executorch.backends.mlx.passes import get_default_passes",
        ),
        partitioners="[MLXPartitioner()]",
        transform_passes="get_default_passes()",
        edge_config="EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)",
        preamble=Path(__file__).with_name("standalone.py").read_text(),
        delegate=DELEGATE,
        ours="the harness executed the payload with mlx.core",
    )


def _make_decoding_script(module: str) -> Script:
    """Make the script of a quantizing recipe; importing ``module`` registers its operators."""
    plain = _make_script()
    return replace(plain, imports=(*plain.imports, f"import {module}  # registers operators"))


def _make_recipe(name: str, precision: Precision, dtype: str = "float32", **options: Any) -> Recipe:
    defaults: dict[str, Any] = {
        "dtype": dtype,
        "partitioners": make_partitioners,
        "transform_passes": make_passes,
        "edge_config": make_edge_config,
        "unsupported": _require_row_major,
        "explain": explain,
        "script": _make_script(),
    }
    return Recipe(name, precision, **{**defaults, **options})


def _make_quantizing_recipe(
    name: str, weights: MlxWeightFormat, precision: Precision = FLOAT32
) -> Recipe:
    """Make a float32 recipe with quantized weights; cases without suitable ones are unsupported."""

    def unsupported(case: Case, built: Built) -> str | None:
        if not has_module(weights.registered_by):
            return (
                f"{describe_installed()} has no {weights.registered_by}, which quantizes to {name}"
            )
        return _require_row_major(case, built) or weights.unsupported(case, built)

    def verify(lowered: Lowered) -> str | None:
        from backends.mlx import weights as program_weights

        return program_weights.verify(weights, lowered)

    def encodings(lowered: Lowered) -> list[Encoding]:
        from backends.mlx import weights as program_weights

        return program_weights.read_encodings(weights, lowered)

    return _make_recipe(
        name,
        precision,
        quantize_weights=weights,
        unsupported=unsupported,
        require_delegation=True,
        verify=verify,
        # Affine weights have names of operators' constants, not those of parameters.
        encodings=None if weights.mode == "affine" else encodings,
        script=_make_decoding_script(weights.registered_by),
    )


# 1.5.0 adds nodes to 1.4.1 and changes none.
CHECKED_RELEASES = ("1.4.1", "1.5.0", "1.5.1")
"""Releases whose runtime (backends/mlx/runtime/) the executor was compared with."""

_PACKAGE = "executorch.backends.mlx"
_MODULE = f"{_PACKAGE}.passes"
_PASSES = {
    "fuse_rms_norm": KnownPass(f"{_MODULE}:FuseRMSNormPass", "replaces an RMS norm by one operator",
                               rounds=True),
    "canonicalize_permute": KnownPass(f"{_MODULE}:CanonicalizePermutePass",
                                      "rewrites transpositions as permutations"),
    "collapse_view_copy": KnownPass(
        "executorch.backends.transforms.collapse_view_copy:CollapseViewCopyPass",
        "merges consecutive views",
    ),
    "collapse_permute": KnownPass(f"{_MODULE}:CollapsePermutePass",
                                  "merges consecutive permutations"),
    "collapse_dtype_conversion": KnownPass(f"{_MODULE}:CollapseDtypeConversionPass",
                                           "merges consecutive casts"),
    "remove_no_ops": KnownPass(f"{_MODULE}:RemoveNoOpsPass", "removes operators without effect",
                               aliases=True),
    "mlx_reinplace": KnownPass(f"{_MODULE}:MLXReinplacePass", "reuses memory of unused values",
                               in_place=True),
}  # fmt: skip


class Mlx:
    """Executes payloads natively where the runtime has the delegate, else with ``mlx.core``."""

    name = "mlx"
    delegate = DELEGATE
    passes = _PASSES
    recipes = {
        "fp32": _make_recipe("fp32", FLOAT32),
        "fp16": _make_recipe("fp16", FLOAT16, "float16"),
        "bf16": _make_recipe("bf16", BFLOAT16, "bfloat16"),
        **{
            name: _make_quantizing_recipe(name, weights, AFFINE_PRECISION)
            for name, weights in AFFINE.items()
        },
        "mxfp8": _make_quantizing_recipe("mxfp8", mxfp8),
        "nvfp4": _make_quantizing_recipe("nvfp4", nvfp4),
    }

    @property
    def lowering_code(self) -> LoweringCode:
        """The package of the delegate."""
        completed = codegen.find_completed_package()
        return LoweringCode(
            (_PACKAGE,),
            # Tools; the generator of the schema's code runs when the wheel is built.
            excluded=tuple(
                f"{_PACKAGE}.{name}"
                for name in ("examples", "pte_inspector", "serialization.generate")
            ),
            # Weights of MX formats.
            shared=tuple(f"executorch.extension.llm.export.{name}" for name in ("mx", "nvfp4")),
            copies=() if completed is None else ((f"{_PACKAGE}.serialization", completed),),
        )

    @functools.cache  # noqa: B019  (one instance per process)
    def availability(self) -> Availability:
        """Check that programs can be lowered, and that the delegate or ``mlx.core`` is there."""
        packages = ("mlx", "executorch", "torch")
        can_lower = False
        try:
            codegen.install()
            can_lower = True
            import mlx.core
        except Exception as error:
            reason = f"{error}; install the version of mlx that pyproject.toml pins"
            return Availability(False, reason, packages=packages, can_lower=can_lower)
        del mlx
        from harness.backend_api import list_native_backends

        runtime = "native" if DELEGATE in list_native_backends() else "emulated"
        unverified = (
            ""
            if runtime == "native"
            else describe_unverified(CHECKED_RELEASES, "the delegate's runtime")
        )
        return Availability(True, runtime=runtime, packages=packages, unverified=unverified)

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Run natively where possible; a program without a delegate always runs natively."""
        from harness.backend_api import Program, list_native_backends, run_native

        parsed = Program(program)
        if not parsed.plan.delegates or DELEGATE in list_native_backends():
            return Execution(run_native(program, calls), "native")
        return self._interpret(parsed, calls)

    def emulate(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Interpret the program, each delegate call with ``mlx.core``."""
        from harness.backend_api import Program

        return self._interpret(Program(program), calls)

    def loader(self, program: Program) -> DelegateLoader:
        """Return a loader that executes payloads with ``mlx.core``; payloads share one cache."""
        from backends.mlx.execution.delegate import make_loader

        return make_loader(program)

    def claim_operators(self, recipe: Recipe) -> Mapping[str, OperatorClaim]:
        """Return the operators of the program builder's registry."""
        codegen.install()
        from backends.mlx.claims import list_claims

        return list_claims()

    def describe(self, payload: DelegatePayload) -> Iterable[str]:
        """List the instructions of a payload."""
        from backends.mlx.payload import reader
        from backends.mlx.payload.payload_text import list_instructions

        return list_instructions(reader.load(payload.data))

    def inspect(self, attempt: InspectedCell) -> Iterable[str]:
        """List the instructions of a cell's program."""
        from backends.mlx.listing import inspect

        return inspect(attempt)

    def _interpret(self, program: Program, calls: Sequence[Inputs]) -> Execution:
        from harness.backend_api import Interpreter, RuntimeKernels

        loaders = {DELEGATE: self.loader(program)}
        interpreter = Interpreter(program, loaders, RuntimeKernels())
        return Execution([interpreter(inputs) for inputs in calls], "emulated")


BACKEND = Mlx()
