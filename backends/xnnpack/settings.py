"""Settings of XNNPACK's partitioner, quantizer and passes that a target can name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from harness.backend_api import Recipe, Setting, change_quantizer, find_float_refusal

_PARTITION = "from executorch.backends.xnnpack.partition.xnnpack_partitioner import {}"
_KINDS = (
    "from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType"
)
_PASSES = "from executorch.backends.xnnpack.utils.configs import get_transform_passes"


def _use_partitioners(recipe: Recipe, make: Callable[[], list[Any]], source: str) -> Recipe:
    script = recipe.script and replace(
        recipe.script,
        imports=(
            *recipe.script.imports,
            _PARTITION.format("XnnpackDynamicallyQuantizedPartitioner"),
            _KINDS,
        ),
        partitioners=source,
    )
    return replace(recipe, partitioners=make, script=script)


def _quantizes_dynamically(recipe: Recipe) -> bool:
    return len(recipe.partitioners()) > 1


def _find_static_refusal(recipe: Recipe) -> str | None:
    return None if _quantizes_dynamically(recipe) else "it does not quantize dynamically"


def _find_dynamic_refusal(recipe: Recipe) -> str | None:
    return "it quantizes dynamically" if _quantizes_dynamically(recipe) else None


def _partition_by_operator(recipe: Recipe) -> Recipe:
    def make() -> list[Any]:
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        return [XnnpackPartitioner(per_op_mode=True)]

    return _use_partitioners(recipe, make, "[XnnpackPartitioner(per_op_mode=True)]")


def _name_precision(recipe: Recipe) -> Recipe:
    kind = "FP32" if recipe.quantizer is None else "STATIC_QUANT"

    def make() -> list[Any]:
        from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        return [XnnpackPartitioner(config_precisions=ConfigPrecisionType[kind])]

    source = f"[XnnpackPartitioner(config_precisions=ConfigPrecisionType.{kind})]"
    return _use_partitioners(recipe, make, source)


def _merge_dynamic_partitions(recipe: Recipe) -> Recipe:
    def make() -> list[Any]:
        from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        kind = ConfigPrecisionType.DYNAMIC_QUANT
        return [XnnpackPartitioner(config_precisions=kind), XnnpackPartitioner()]

    kind = "ConfigPrecisionType.DYNAMIC_QUANT"
    source = f"[XnnpackPartitioner(config_precisions={kind}), XnnpackPartitioner()]"
    return _use_partitioners(recipe, make, source)


def _use_dynamic_partitioner(recipe: Recipe) -> Recipe:
    def make() -> list[Any]:
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import (
            XnnpackDynamicallyQuantizedPartitioner,
            XnnpackPartitioner,
        )

        return [XnnpackDynamicallyQuantizedPartitioner(), XnnpackPartitioner()]

    source = "[XnnpackDynamicallyQuantizedPartitioner(), XnnpackPartitioner()]"
    return _use_partitioners(recipe, make, source)


def _run_transform_passes(recipe: Recipe) -> Recipe:
    def make() -> list[Any]:
        from executorch.backends.xnnpack.utils.configs import get_transform_passes

        return [*recipe.transform_passes(), *get_transform_passes()]

    script = recipe.script and replace(
        recipe.script,
        imports=(*recipe.script.imports, _PASSES),
        transform_passes=f"{recipe.script.transform_passes} + get_transform_passes()",
    )
    return replace(recipe, transform_passes=make, script=script)


# Each of these functions is copied into scripts.


def quantize_operator_types(quantizer: Any) -> Any:
    """Quantize linear layers, convolutions and sums, named by their operator."""
    import torch

    config = quantizer.global_config
    quantizer.set_global(None)
    aten = torch.ops.aten
    for operator in (aten.linear.default, aten.conv2d.default, aten.add.Tensor):
        quantizer.set_operator_type(operator, config)
    return quantizer


def leave_linear_in_float(quantizer: Any) -> Any:
    """Quantize everything but linear layers, with a filter of nodes."""
    import torch

    return quantizer.set_filter_function(
        lambda node: node.target is not torch.ops.aten.linear.default
    )


def _quantizer_setting(about: str, change: Callable[[Any], Any]) -> Setting:
    return Setting(about, "quantizer", partial(change_quantizer, change=change), find_float_refusal)


SETTINGS: Mapping[str, Setting] = {
    "per_op": Setting(
        "makes a delegate of each operator (XnnpackPartitioner.per_op_mode)",
        "partitioner",
        _partition_by_operator,
        _find_dynamic_refusal,
    ),
    "one_precision": Setting(
        "delegates operators of the recipe's precision only (XnnpackPartitioner.config_precisions)",
        "partitioner",
        _name_precision,
        _find_dynamic_refusal,
    ),
    "merged_dynamic": Setting(
        "merges dynamically quantized operators into one delegate (no per_op_mode)",
        "partitioner",
        _merge_dynamic_partitions,
        _find_static_refusal,
    ),
    "dynamic_partitioner": Setting(
        "partitions with XnnpackDynamicallyQuantizedPartitioner, then XnnpackPartitioner",
        "partitioner",
        _use_dynamic_partitioner,
        _find_static_refusal,
    ),
    "transform_passes": Setting(
        "runs the backend's get_transform_passes()", "transform passes", _run_transform_passes
    ),
    "operator_types": _quantizer_setting(
        "quantizes linear, convolution and sums only (set_operator_type)", quantize_operator_types
    ),
    "float_linear": _quantizer_setting(
        "leaves linear layers in float (set_filter_function)", leave_linear_in_float
    ),
}
