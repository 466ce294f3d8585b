"""The settings that targets of every backend can name."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.model.recipe import Lowered, Recipe, Script
from harness.model.variations.setting import (
    Setting,
    change_edge_config,
    change_emission,
    make_quantizer_setting,
    replace_script,
)

# Export.


def _export_strictly(recipe: Recipe) -> Recipe:
    def change(script: Script) -> Script:
        return replace(script, strict=True)

    return replace(recipe, strict=True, script=replace_script(recipe, change))


# Edge dialect.

PRESERVED = (
    "linear.default glu.default logit.default masked_fill.Scalar pixel_shuffle.default "
    "pixel_unshuffle.default reflection_pad1d.default reflection_pad2d.default "
    "reflection_pad3d.default replication_pad1d.default replication_pad2d.default "
    "replication_pad3d.default roll.default rsub.Scalar stack.default tril.default "
    "floor_divide.default"
).split()
"""ATen operators that ExecuTorch decomposes although its runtime has a kernel: names in
``torch.export.default_decompositions()`` of which ``_get_operator_names()`` has the out variant."""

UNVERIFIED = (
    "bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar bitwise_right_shift.Tensor "
    "bitwise_right_shift.Tensor_Scalar masked_select.default repeat_interleave.Tensor "
    "var_mean.correction"
).split()
"""ATen operators that are not core ATen and have no decomposition, but a kernel in the runtime."""


def _overloads(names: Sequence[str]) -> list[Any]:
    import torch

    split = (name.split(".") for name in names)
    return [getattr(getattr(torch.ops.aten, name), overload) for name, overload in split]


def _overloads_source(names: Sequence[str]) -> str:
    return f"[{', '.join(f'torch.ops.aten.{name}' for name in names)}]"


def _skip_dim_order(recipe: Recipe) -> Recipe:
    return change_edge_config(recipe, lambda: {"_skip_dim_order": True}, "_skip_dim_order=True")


def _find_dim_order_refusal(recipe: Recipe) -> str | None:
    skips = recipe.edge_config()._skip_dim_order
    return "its edge configuration skips dim orders already" if skips else None


def _verify_no_dim_order(lowered: Lowered) -> str | None:
    for node in lowered.edge.graph.nodes:
        if node.op == "call_function" and "dim_order_ops" in str(node.target):
            return f"_skip_dim_order had no effect: the program calls {node.target}"
    return None


def _preserve_operators(recipe: Recipe) -> Recipe:
    source = f"preserve_ops={_overloads_source(PRESERVED)}"
    return change_edge_config(recipe, lambda: {"preserve_ops": _overloads(PRESERVED)}, source)


def _find_preserving_refusal(recipe: Recipe) -> str | None:
    if not recipe.partitioners():
        return None
    # _gen_edge_manager_for_partitioners of exir/program/_program.py reads preserve_ops only for
    # methods without a partitioner.
    return "to_edge_transform_and_lower ignores preserve_ops where there is a partitioner"


def _verify_preserved(lowered: Lowered) -> str | None:
    exported = Counter(
        str(node.target) for node in lowered.exported.graph.nodes if node.op == "call_function"
    )
    for name in PRESERVED:
        found = lowered.delegation.undelegated_ops.get(f"aten.{name}", 0)
        if found < (number := exported[f"aten.{name}"]):
            return (
                f"preserve_ops had no effect: {number} aten.{name} were exported, and the edge "
                f"program has {found}"
            )
    return None


def _permit_unverified(recipe: Recipe) -> Recipe:
    source = f"_core_aten_ops_exception_list={_overloads_source(UNVERIFIED)}"

    def make() -> dict[str, Any]:
        before = recipe.edge_config()._core_aten_ops_exception_list
        return {"_core_aten_ops_exception_list": [*before, *_overloads(UNVERIFIED)]}

    return change_edge_config(recipe, make, source)


# Memory planning and emission.

_PLANNING = "from executorch.exir.passes import MemoryPlanningPass"


def _plan_sequentially(recipe: Recipe) -> Recipe:
    def make() -> dict[str, Any]:
        from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, naive
        from executorch.exir.passes import MemoryPlanningPass

        planning = MemoryPlanningPass(MemoryPlanningAlgorithmSuite([naive]))
        return {"memory_planning_pass": planning}

    source = "memory_planning_pass=MemoryPlanningPass(MemoryPlanningAlgorithmSuite([naive]))"
    algorithm = "from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, naive"
    return change_emission(recipe, make, source, _PLANNING, algorithm)


def _leave_inputs_and_outputs_unplanned(recipe: Recipe) -> Recipe:
    def make() -> dict[str, Any]:
        from executorch.exir.passes import MemoryPlanningPass

        planning = MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False)
        return {"memory_planning_pass": planning}

    planning = "MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False)"
    return change_emission(recipe, make, f"memory_planning_pass={planning}", _PLANNING)


def _verify_unplanned_inputs(lowered: Lowered) -> str | None:
    plan = lowered.program.plan
    for index in plan.inputs:
        if getattr(plan.values[index].val, "allocation_info", None) is not None:
            return f"alloc_graph_input=False had no effect: input value {index} has planned memory"
    return None


def _keep_view_copies(recipe: Recipe) -> Recipe:
    return change_emission(recipe, lambda: {"remove_view_copy": False}, "remove_view_copy=False")


def _emit_delegates_inline(recipe: Recipe) -> Recipe:
    source = "extract_delegate_segments=False"
    return change_emission(recipe, lambda: {"extract_delegate_segments": False}, source)


def _find_inline_refusal(recipe: Recipe) -> str | None:
    return None if recipe.partitioners() else "it has no delegates"


def _verify_inline(lowered: Lowered) -> str | None:
    from executorch.exir.schema import DataLocation

    from harness.vendors.executorch import _ExtendedHeader, _flatbuffer_to_program

    head = lowered.data[8 : 8 + _ExtendedHeader.EXPECTED_LENGTH]
    if not head.startswith(_ExtendedHeader.EXPECTED_MAGIC):
        return None  # a program without segments has no header
    header = _ExtendedHeader.from_bytes(head)
    # Read again: the parsed program of the harness has the data of segments in place.
    plans = _flatbuffer_to_program(lowered.data[: header.program_size]).execution_plan
    for delegate in (each for plan in plans for each in plan.delegates):
        if delegate.processed.location is not DataLocation.INLINE:
            return f"extract_delegate_segments=False had no effect: {delegate.id} has a segment"
    return None


# Quantizer. Scripts have copies of these functions.


def quantize_layer_types(quantizer: Any) -> Any:
    """Quantize linear and convolution layers, named by their type; fail if one is not quantized."""
    import torch

    config, validate = quantizer.global_config, quantizer.validate
    quantizer.set_global(None)
    for kind in (torch.nn.Linear, torch.nn.Conv2d):
        quantizer.set_module_type(kind, config)

    def require_all(model: torch.fx.GraphModule) -> None:
        layers = {torch.ops.aten.linear.default: "Linear", torch.ops.aten.conv2d.default: "Conv2d"}
        for node in model.graph.nodes:
            _, kind = next(reversed((node.meta.get("nn_module_stack") or {"": ("", "")}).values()))
            name = layers.get(node.target, "")
            if (
                name
                and str(kind).endswith(f".{name}")
                and "quantization_annotation" not in node.meta
            ):
                raise ValueError(f"set_module_type({name}) has no effect: {node} is not quantized")
        validate(model)

    quantizer.validate = require_all
    return quantizer


def use_symmetric_codes(quantizer: Any) -> Any:
    """Use the codes -127 to 127 for activations."""
    config = quantizer.global_config
    specs = {
        name: dataclasses.replace(getattr(config, name), quant_min=-127)
        for name in ("input_activation", "output_activation")
        if getattr(config, name) is not None
    }
    return quantizer.set_global(dataclasses.replace(config, **specs))


def _find_quantizer_refusal(recipe: Recipe) -> str | None:
    quantizer = recipe.quantizer and recipe.quantizer()
    names = ("global_config", "set_global", "set_module_type")
    missing = [name for name in names if not hasattr(quantizer, name)]
    return f"its quantizer has no {missing[0]}" if missing else None


GENERAL_SETTINGS: Mapping[str, Setting] = {
    "strict": Setting("exports with Dynamo (strict=True)", "export", _export_strictly),
    "skip_dim_order": Setting(
        "leaves memory formats as they are (EdgeCompileConfig._skip_dim_order)",
        "dim order",
        _skip_dim_order,
        _find_dim_order_refusal,
        _verify_no_dim_order,
    ),
    "preserve_ops": Setting(
        "keeps operators that have a kernel undecomposed (EdgeCompileConfig.preserve_ops)",
        "decomposition",
        _preserve_operators,
        _find_preserving_refusal,
        _verify_preserved,
    ),
    "core_aten_exceptions": Setting(
        "permits operators that are not core ATen (_core_aten_ops_exception_list)",
        "edge verifier",
        _permit_unverified,
    ),
    "naive_memory": Setting(
        "plans memory without reuse (MemoryPlanningPass of naive)",
        "memory plan",
        _plan_sequentially,
    ),
    "unplanned_io": Setting(
        "plans no memory for inputs and outputs (MemoryPlanningPass.alloc_graph_input, _output)",
        "memory plan",
        _leave_inputs_and_outputs_unplanned,
        verify=_verify_unplanned_inputs,
    ),
    "view_copies": Setting(
        "copies views (ExecutorchBackendConfig.remove_view_copy=False)", "views", _keep_view_copies
    ),
    "inline_delegates": Setting(
        "emits payloads into the program (ExecutorchBackendConfig.extract_delegate_segments=False)",
        "delegate data",
        _emit_delegates_inline,
        _find_inline_refusal,
        _verify_inline,
    ),
    "layer_types": make_quantizer_setting(
        "quantizes linear and convolution layers only (set_module_type)",
        quantize_layer_types,
        _find_quantizer_refusal,
    ),
    "symmetric_codes": make_quantizer_setting(
        "uses the codes -127 to 127 for activations (act_qmin=-127)",
        use_symmetric_codes,
        _find_quantizer_refusal,
    ),
}
"""Settings that any recipe can have."""
