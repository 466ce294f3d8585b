"""The MLX recipes and how their programs are executed."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.mlx import codegen
from backends.mlx.payload.graph import DELEGATE
from backends.mlx.quantization import Format, int4, mxfp8, nvfp4
from harness import (
    Availability,
    Execution,
    Inputs,
    InspectedCell,
    KnownPass,
    Lowered,
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

    from harness import Built, Case, DelegateLoader, DelegatePayload, Encoding, Program

# A function's argument: mlx's exp multiplies it by a rounded log2(e) and rounds the product
# (cpu/simd/math.h). Divisions: rsqrt divides by a rounded root (cpu/simd/base_simd.h), softmax
# multiplies by a rounded reciprocal (cpu/softmax.cpp, metal/kernels/softmax.h).
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
# Metal's kernels (bf16_math.h); a sigmoid is four operations that round each (unary_ops.h).
BFLOAT16 = Precision(
    function_ulps=0.5,
    functions={"sigmoid": 2.0},
    division_roundings=2.0,
    float32_sums=_FLOAT32_SUMS,
)

# The same on the CPU (types/fp16.h). Metal's own functions of half err by an ULP (Metal Shading
# Language Specification 2.0, table 38), and its sigmoid thereby by 2.5.
FLOAT16 = Precision(
    function_ulps=1.0,
    functions={"sigmoid": 2.5},
    division_roundings=2.0,
    float32_sums=_FLOAT32_SUMS,
)

# Up to 32 codes are summed before scale and offset meet (qdot in metal/kernels/quantized.h).
INT4 = replace(FLOAT32, block_roundings=33.0)


def partitioners() -> list[Partitioner]:
    """The delegate's partitioner; it takes no options."""
    codegen.install()
    from executorch.backends.mlx import MLXPartitioner

    return [MLXPartitioner()]


def passes() -> list[Any]:
    """The backend's default passes, the one that makes operations in-place last."""
    codegen.install()
    from executorch.backends.mlx.passes import get_default_passes

    return list(get_default_passes())


def edge_config() -> EdgeCompileConfig:
    """In-place edge operators are not core ATen, and the delegate knows no dim order."""
    from executorch.exir import EdgeCompileConfig

    return EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)


def explain(partitioners: Sequence[Any], node: Node) -> str | None:
    """What the program builder, which the partitioner asks, has against a node."""
    for partitioner in partitioners:
        # Releases before 1.5.0 keep no reasons.
        reasons = getattr(partitioner.supported_ops, "_unsupported_reason", {})
        for refused, reason in reasons.items():
            if refused.name == node.name:
                # What a handler raised follows with its traceback; addresses differ every time.
                said = reason.partition("\nTraceback")[0].rstrip(".")
                return re.sub(r"<function (\S+) at 0x[0-9a-f]+>", r"\1", said)
    return None


def _row_major_only(case: Case, built: Built) -> str | None:
    if built.is_row_major():
        return None
    return "the delegate takes row-major inputs only: its lowering refuses other strides"


@functools.cache
def _script() -> Script:
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
        ours="the payload was executed with mlx.core",
    )


def _decoding(module: str) -> Script:
    """The script of a recipe whose decoding operators a module registers."""
    plain = _script()
    return replace(plain, imports=(*plain.imports, f"import {module}  # registers operators"))


def _recipe(name: str, precision: Precision, dtype: str = "float32", **options: Any) -> Recipe:
    defaults: dict[str, Any] = {
        "dtype": dtype,
        "partitioners": partitioners,
        "transform_passes": passes,
        "edge_config": edge_config,
        "unsupported": _row_major_only,
        "explain": explain,
        "script": _script(),
    }
    return Recipe(name, precision, **{**defaults, **options})


def _quantized(name: str, weights: Format, precision: Precision = FLOAT32) -> Recipe:
    """Float32 with quantized weights; a case without any that fit is not the recipe's."""

    def unsupported(case: Case, built: Built) -> str | None:
        if not has_module(weights.registered_by):
            return (
                f"{describe_installed()} has no {weights.registered_by}, which quantizes to {name}"
            )
        return _row_major_only(case, built) or weights.unsupported(case, built)

    def verify(lowered: Lowered) -> str | None:
        from backends.mlx import weights as carried

        return carried.verify(weights, lowered)

    def encodings(lowered: Lowered) -> list[Encoding]:
        from backends.mlx import weights as carried

        return carried.encodings(weights, lowered)

    return _recipe(
        name,
        precision,
        quantize_weights=weights,
        unsupported=unsupported,
        require_delegation=True,
        # Affine weights are decoded by operators of the exported graph, not by a tensor's class.
        verify=None if weights.mode == "affine" else verify,
        encodings=None if weights.mode == "affine" else encodings,
        script=_decoding(weights.registered_by),
    )


# 1.5.0 adds nodes to 1.4.1 and changes none.
READ = ("1.4.1", "1.5.0", "1.5.1")
"""The releases whose runtime (backends/mlx/runtime/) the executor was checked against."""

_MODULE = "executorch.backends.mlx.passes"
_PASSES = {
    "fuse_rms_norm": KnownPass(f"{_MODULE}:FuseRMSNormPass", "makes one operator of an RMS norm",
                               rounds=True),
    "canonicalize_permute": KnownPass(f"{_MODULE}:CanonicalizePermutePass",
                                      "spells transpositions as permutations"),
    "collapse_view_copy": KnownPass(
        "executorch.backends.transforms.collapse_view_copy:CollapseViewCopyPass",
        "makes one of several views in a row",
    ),
    "collapse_permute": KnownPass(f"{_MODULE}:CollapsePermutePass",
                                  "makes one of several permutations in a row"),
    "collapse_dtype_conversion": KnownPass(f"{_MODULE}:CollapseDtypeConversionPass",
                                           "makes one of several casts in a row"),
    "remove_no_ops": KnownPass(f"{_MODULE}:RemoveNoOpsPass", "drops operators that do nothing",
                               aliases=True),
    "mlx_reinplace": KnownPass(f"{_MODULE}:MLXReinplacePass", "writes into values that are dead",
                               in_place=True),
}  # fmt: skip


class Mlx:
    """Runs the delegate's payload: natively where the runtime has it, else with ``mlx.core``."""

    name = "mlx"
    delegate = DELEGATE
    passes = _PASSES
    recipes = {
        "fp32": _recipe("fp32", FLOAT32),
        "fp16": _recipe("fp16", FLOAT16, "float16"),
        "bf16": _recipe("bf16", BFLOAT16, "bfloat16"),
        "int4": _quantized("int4", int4, INT4),
        "mxfp8": _quantized("mxfp8", mxfp8),
        "nvfp4": _quantized("nvfp4", nvfp4),
    }

    @functools.cache  # noqa: B019  (one instance per process)
    def availability(self) -> Availability:
        """Ask the runtime for the delegate, then for what executes it without."""
        packages = ("mlx", "executorch", "torch")
        can_lower = False
        try:
            codegen.install()
            can_lower = True
            import mlx.core
        except Exception as error:
            reason = f"{error}; install mlx in the version that pyproject.toml pins"
            return Availability(False, reason, packages=packages, can_lower=can_lower)
        del mlx
        from harness import list_native_backends

        runtime = "native" if DELEGATE in list_native_backends() else "emulated"
        unverified = (
            "" if runtime == "native" else describe_unverified(READ, "the delegate's runtime")
        )
        return Availability(True, runtime=runtime, packages=packages, unverified=unverified)

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Run natively where possible; a program without a delegate always is."""
        from harness import Program, list_native_backends, run_native

        parsed = Program(program)
        if not parsed.plan.delegates or DELEGATE in list_native_backends():
            return Execution(run_native(program, calls), "native")
        return self._interpret(parsed, calls)

    def emulate(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Interpret the program, each delegate call with ``mlx.core``."""
        from harness import Program

        return self._interpret(Program(program), calls)

    def loader(self, program: Program) -> DelegateLoader:
        """Executes payloads with ``mlx.core``; those of one program share its cache."""
        from backends.mlx.execution.delegate import loader

        return loader(program)

    def describe(self, payload: DelegatePayload) -> Iterable[str]:
        """The instruction listing of a payload."""
        from backends.mlx.payload import reader
        from backends.mlx.payload.listing import listing

        return listing(reader.load(payload.data))

    def inspect(self, attempt: InspectedCell) -> Iterable[str]:
        """The instruction listing of the cell's program."""
        from backends.mlx.listing import inspect

        return inspect(attempt)

    def _interpret(self, program: Program, calls: Sequence[Inputs]) -> Execution:
        from harness import Interpreter, RuntimeKernels

        loaders = {DELEGATE: self.loader(program)}
        interpreter = Interpreter(program, loaders, RuntimeKernels())
        return Execution([interpreter(inputs) for inputs in calls], "emulated")


BACKEND = Mlx()
