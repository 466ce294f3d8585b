"""One recipe from several: partitioners in order of preference, for programs of several delegates.

A target such as ``metal:fp32/xnnpack:fp32`` delegates to Metal what Metal takes and to XNNPACK what
is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from harness.errors import UnknownTarget
from harness.model.precision import Precision
from harness.model.recipe import Recipe

if TYPE_CHECKING:
    from executorch.exir import EdgeCompileConfig
    from executorch.exir.backend.partitioner import Partitioner
    from torch.fx import Node

    from harness.model.case import Built, Case


def mix_precisions(models: Sequence[Precision]) -> Precision:
    """Return the rounding model that allows each operator what the coarsest of the models allows.

    An operator may be in any of the delegates, so that its bound must hold for each.
    """
    names = {name for model in models for name in model.functions}
    merged: dict[str, Any] = {
        each.name: max(getattr(model, each.name) for model in models)
        for each in fields(Precision)
        if each.name not in ("arithmetic", "functions", "float32_sums")
    }
    narrow = [model.arithmetic for model in models if model.arithmetic is not None]
    return Precision(
        **merged,
        arithmetic=max(narrow, key=("float16", "bfloat16").index, default=None),
        functions={name: max(model.ulps(name) for model in models) for name in names},
        float32_sums=frozenset.intersection(*(model.float32_sums for model in models)),
    )


def mix_recipes(recipes: Mapping[str, Recipe]) -> Recipe:
    """Return a recipe with the partitioners of all, in turn, and the passes of the first.

    Args:
        recipes: the recipes by target, in order of preference. At most one may quantize.

    Raises:
        UnknownTarget: the recipes have different dtypes, several quantize, or several define the
            meaning of operators.
    """
    parts = list(recipes.values())
    names = " and ".join(recipes)
    if len(dtypes := {part.dtype for part in parts}) > 1:
        raise UnknownTarget(
            f"{names} have no common dtype ({', '.join(sorted(dtypes))}); one program has one"
        )
    quantizing = [part for part in parts if part.quantizer or part.quantize_weights]
    if len(quantizing) > 1:
        raise UnknownTarget(f"{names} all quantize; a program is quantized once")
    quantized = quantizing[0] if quantizing else parts[0]
    return Recipe(
        "/".join(part.name for part in parts),
        mix_precisions([part.precision for part in parts]),
        dtype=parts[0].dtype,
        channels_last=any(part.channels_last for part in parts),
        quantizer=quantized.quantizer,
        quantize_weights=quantized.quantize_weights,
        partitioners=lambda: [made for part in parts for made in part.partitioners()],
        # Those of a later backend would rewrite, also in place, what earlier ones look for.
        transform_passes=parts[0].transform_passes,
        edge_config=lambda: _mix_edge_configs([part.edge_config() for part in parts]),
        unsupported=_find_first([part.unsupported for part in parts]),
        encodings=quantized.encodings,
        semantics=quantized.semantics,
        explain=_explain_by([(part.partitioners, part.explain) for part in parts]),
        narrowed=quantized.narrowed,
    )


def _mix_edge_configs(configs: Sequence[EdgeCompileConfig]) -> EdgeCompileConfig:
    """Return the configuration that permits what any of them permits."""
    from executorch.exir import EdgeCompileConfig

    return EdgeCompileConfig(
        _check_ir_validity=all(config._check_ir_validity for config in configs),
        _skip_dim_order=any(config._skip_dim_order for config in configs),
        _core_aten_ops_exception_list=[
            operator for config in configs for operator in config._core_aten_ops_exception_list
        ],
        preserve_ops=[operator for config in configs for operator in config.preserve_ops],
    )


def _find_first(
    checks: Sequence[Callable[[Case, Built], str | None]],
) -> Callable[[Case, Built], str | None]:
    def unsupported(case: Case, built: Built) -> str | None:
        return next((reason for check in checks if (reason := check(case, built))), None)

    return unsupported


_Explain = Callable[[Sequence["Partitioner"], "Node"], str | None]


def _explain_by(
    parts: Sequence[tuple[Callable[[], list[Partitioner]], _Explain | None]],
) -> _Explain:
    """Return a function that asks each recipe about its own partitioners."""

    def explain(partitioners: Sequence[Partitioner], node: Node) -> str | None:
        rest = list(partitioners)
        for make, ask in parts:
            own = rest[: len(make())]
            rest = rest[len(own) :]
            if ask is not None and (reason := ask(own, node)) is not None:
                return reason
        return None

    return explain
