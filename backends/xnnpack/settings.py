"""Settings of XNNPACK's partitioner, quantizer and passes that a target can name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from harness.backend_api import Recipe, Script, Setting, make_quantizer_setting

_IMPORTS = (
    "from executorch.backends.xnnpack.partition.xnnpack_partitioner import "
    "XnnpackDynamicallyQuantizedPartitioner",
    "from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType",
)
_PASSES = "from executorch.backends.xnnpack.utils.configs import get_transform_passes"


class _Partitioner(NamedTuple):
    """A partitioner as data.

    Attributes:
        name: its class.
        precision: member of ``ConfigPrecisionType`` of the operators that it takes; empty for all.
        per_op: make a delegate of each operator.
    """

    name: str = "XnnpackPartitioner"
    precision: str = ""
    per_op: bool = False

    def make(self) -> Any:
        """Create the partitioner."""
        from executorch.backends.xnnpack.partition import xnnpack_partitioner
        from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType

        options: dict[str, Any] = {"per_op_mode": True} if self.per_op else {}
        if self.precision:
            options["config_precisions"] = ConfigPrecisionType[self.precision]
        return getattr(xnnpack_partitioner, self.name)(**options)

    @property
    def source(self) -> str:
        """The same as a Python expression."""
        options = ["per_op_mode=True"] if self.per_op else []
        if self.precision:
            options.append(f"config_precisions=ConfigPrecisionType.{self.precision}")
        return f"{self.name}({', '.join(options)})"


def _use_partitioners(recipe: Recipe, *wanted: _Partitioner) -> Recipe:
    def change(script: Script) -> Script:
        source = f"[{', '.join(each.source for each in wanted)}]"
        return replace(script, imports=(*script.imports, *_IMPORTS), partitioners=source)

    return replace(
        recipe,
        partitioners=lambda: [each.make() for each in wanted],
        script=recipe.script and change(recipe.script),
    )


def _quantizes_dynamically(recipe: Recipe) -> bool:
    return len(recipe.partitioners()) > 1


def _find_static_refusal(recipe: Recipe) -> str | None:
    return None if _quantizes_dynamically(recipe) else "it does not quantize dynamically"


def _find_dynamic_refusal(recipe: Recipe) -> str | None:
    return "it quantizes dynamically" if _quantizes_dynamically(recipe) else None


def _partition_by_operator(recipe: Recipe) -> Recipe:
    return _use_partitioners(recipe, _Partitioner(per_op=True))


def _name_precision(recipe: Recipe) -> Recipe:
    precision = "FP32" if recipe.quantizer is None else "STATIC_QUANT"
    return _use_partitioners(recipe, _Partitioner(precision=precision))


def _merge_dynamic_partitions(recipe: Recipe) -> Recipe:
    return _use_partitioners(recipe, _Partitioner(precision="DYNAMIC_QUANT"), _Partitioner())


def _use_dynamic_partitioner(recipe: Recipe) -> Recipe:
    dynamic = _Partitioner("XnnpackDynamicallyQuantizedPartitioner")
    return _use_partitioners(recipe, dynamic, _Partitioner())


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


def quantize_for_training(quantizer: Any) -> Any:
    """Quantize with the configuration for training."""
    import torch
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer

    per_channel = quantizer.global_config.weight.qscheme == torch.per_channel_symmetric
    return quantizer.set_global(
        xnnpack_quantizer.get_symmetric_quantization_config(is_per_channel=per_channel, is_qat=True)
    )


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
    "operator_types": make_quantizer_setting(
        "quantizes linear, convolution and sums only (set_operator_type)", quantize_operator_types
    ),
    "float_linear": make_quantizer_setting(
        "leaves linear layers in float (set_filter_function)", leave_linear_in_float
    ),
    "qat": make_quantizer_setting(
        "prepares for quantization-aware training (prepare_qat_pt2e), without training",
        quantize_for_training,
        _find_dynamic_refusal,
        qat=True,
    ),
}
