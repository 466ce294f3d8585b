"""The overloads under test: of core ATen, and of operators that a backend claims."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from harness.model.registry import backend
from harness.record.target import matches_any_glob
from suites.opinfo.sampling import core_operators

EXCLUDED = {
    "*_backward.*": "of training",
    "native_dropout.*": "of training",
    "rand.*|randn.*|randperm.*": "draws, and suites/ops covers draws",
    "empty.*|empty_strided.*|resize_.*": "its values are undefined",
    "sym_*|_local_scalar_dense.*|item.*": "returns a number; see sizes.py",
    "nonzero.*|masked_select.*|where.default": "its size depends on data; see sizes.py",
    "repeat_interleave.Tensor|narrow.Tensor": "its size depends on data; see sizes.py",
    "_fft_*|view_as_real*": "takes or returns complex numbers",
    "_assert_scalar.*": "returns nothing",
    "_scaled_dot_product_attention_math_for_mps*": "of Metal only",
    "addmm.dtype|bmm.dtype|mm.dtype": "torch has no kernel for CPUs",
    "copy.Dict*|copy.t|copy_.Tensor|copy_.int|copy_.float": "of TorchScript",
    "quantize_per_tensor*": "returns torch's quantized tensors, which no program takes",
    "_native_batch_norm_legit.*": "of training: it computes the statistics of its batch",
}
"""Overloads without calls, as globs separated by ``|``, and why."""


def find_operators() -> dict[str, set[str]]:
    """The names of operators with whoever claims them: ``core`` or a backend."""
    found: dict[str, set[str]] = {}
    for claimant, names in {
        "core": core_operators(),
        "xnnpack": _names(_find_of_xnnpack()),
        "mlx": _names(_find_of_mlx()),
        "tosa": _names(_find_of_arm()),
        "metal": _names(_find_of_metal()),
        "portable": _names(_find_of_runtime()),
    }.items():
        for name in names:
            if hasattr(torch.ops.aten, name):
                found.setdefault(name, set()).add(claimant)
    return found


def find_overloads(operators: Iterable[str]) -> Iterator[str]:
    """The overloads of operators, ``X.Y``, that a program can call."""
    for name in sorted(operators):
        packet = getattr(torch.ops.aten, name)
        for overload in sorted(packet.overloads()):
            schema = getattr(packet, overload)._schema
            types = {str(argument.real_type) for argument in schema.arguments}
            if not any("Tensor" in str(result.real_type) for result in schema.returns):
                continue  # TorchScript's arithmetic on numbers
            # Emission makes out variants of functional ones; a generator is no input.
            if (
                not any(argument.is_out for argument in schema.arguments)
                and not any(
                    word in kind for word in ("Generator", "Stream", "Storage") for kind in types
                )
                and find_exclusion(f"{name}.{overload}") is None
            ):
                yield f"{name}.{overload}"


def find_exclusion(overload: str) -> str | None:
    """Why an overload has no calls, or None."""
    return next((why for globs, why in EXCLUDED.items() if matches_any_glob(globs, overload)), None)


def _names(targets: Iterable[Any]) -> set[str]:
    """Names of operators of ``aten`` among overloads, edge operators and texts."""
    found = set()
    for target in targets:
        name = getattr(target, "__name__", target)
        text = str(name).removeprefix("aten::").removeprefix("aten.")
        if isinstance(target, str) or getattr(target, "namespace", "aten") == "aten":
            found.add(text.split(".")[0])
    return found


def _find_of_xnnpack() -> Iterator[str]:
    from executorch.backends.xnnpack.partition.config import ALL_PARTITIONER_CONFIGS

    for config in ALL_PARTITIONER_CONFIGS:
        if name := getattr(config, "target_name", ""):
            yield name


def _find_of_mlx() -> Iterator[str]:
    backend("mlx").availability()  # adds the files that the wheel lacks
    import executorch.backends.mlx.ops  # noqa: F401  # registers the handlers
    from executorch.backends.mlx.builder.op_registry import REGISTRY

    for target in REGISTRY._handlers:
        if getattr(target, "namespace", "") == "aten":
            yield str(target)


def _find_of_arm() -> Iterator[str]:
    import executorch.backends.arm.tosa.partitioner  # noqa: F401  # registers the checks
    from executorch.backends.arm.operator_support import (
        tosa_profile_supported_op_lists as lists,
        tosa_supported_operators as support,
    )

    targets = {*lists.TOSA_PRO_INT_SupportList, *lists.TOSA_PRO_FP_SupportList}
    for checks in vars(support._tosa_spec_support).values():
        for registered in checks.values():
            targets.update(target for check in registered for target in check.targets)
    for target in targets:
        if (text := str(getattr(target, "_op", target))).startswith("aten."):
            yield text


def _find_of_metal() -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the backend calls itself experimental
        from executorch.backends.apple.metal.metal_backend import MetalBackend

    for name in MetalBackend.get_supported_fallback_kernels():
        if name.startswith("at::_ops::"):
            yield name.split("::")[2]
        elif name.startswith("aoti_torch_mps_"):
            yield name.removeprefix("aoti_torch_mps_").removesuffix("_out")


def _find_of_runtime() -> Iterator[str]:
    from executorch.runtime import Runtime

    for name in Runtime.get().operator_registry.operator_names:
        if name.startswith("aten::"):
            yield name.removesuffix("_copy.out")
            yield name
