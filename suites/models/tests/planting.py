"""Recipes whose programs have a wrong weight."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from executorch.exir.backend.partitioner import Partitioner, PartitionResult
from torch.export import ExportedProgram

from harness import Target, registry
from harness.backend_api import Recipe


class WrongWeight(Partitioner):  # type: ignore[misc]  # executorch has no types
    """A partitioner that takes no node and corrupts a weight before lowering.

    It scales the first half of each row of the weight in the program's state, under any name. It
    does not scale the whole weight, because a norm after the layer would remove the factor.
    """

    def __init__(self, weight: torch.Tensor, factor: float) -> None:
        super().__init__()
        self._weight = weight
        self._factor = factor

    def transform_for_pre_decomposition(self, program: ExportedProgram) -> ExportedProgram:
        wrong = copy.copy(program)
        wrong._state_dict = self._with_fault(program.state_dict)
        wrong._constants = self._with_fault(program.constants)
        return wrong

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        return PartitionResult(tagged_exported_program=exported_program, partition_tags={})

    def _with_fault(self, state: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._wrong(value) for name, value in state.items()}

    def _wrong(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.shape != self._weight.shape:
            return value
        if not torch.equal(value, self._weight):
            return value
        scaled = value.detach().clone()
        scaled[:, : (scaled.shape[1] + 1) // 2] *= self._factor
        is_parameter = isinstance(value, torch.nn.Parameter)
        return torch.nn.Parameter(scaled, requires_grad=False) if is_parameter else scaled


def make_wrong_weight_recipe(target: str, weight: torch.Tensor, factor: float) -> Recipe:
    """Make a recipe whose programs have half of a weight scaled."""
    recipe = registry.recipe(Target.parse(target))
    return replace(
        recipe,
        partitioners=lambda: [WrongWeight(weight, factor), *recipe.partitioners()],
        explain=None,  # Uses the recipe's own partitioners.
    )
