"""Faults in one layer of a module, planted while it runs in eager.

A layer is a call of one of a few operators that multiply by a weight. The fault changes an argument
of the call, so that it can be planted in a module, a quantized graph, and a graph with quantized
weights alike. A weight is what the operator gets: for integer recipes, its codes times their scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.model.case import CallInputs, arguments
from harness.vendors.torch import tree_leaves
from reports import sensitivity

# The positions of activation, weight and bias among an operator's arguments.
_OPERANDS: Mapping[str, tuple[int, int, int | None]] = {
    "mm": (0, 1, None),
    "addmm": (1, 2, 0),
    "convolution": (0, 1, 2),
    "linear": (0, 1, 2),
    "conv1d": (0, 1, 2),
    "conv2d": (0, 1, 2),
}
# Operators that take codes: an error in the scale of all weights is one in their product.
_OF_CODES = ("_linear_fp_act_4bit_weight", "tosa_mxfp::linear", "tosa_mxfp::conv2d")

KINDS = tuple(sensitivity.KINDS)


@dataclass(frozen=True)
class Fault:
    """An error in an argument of a layer.

    Attributes:
        kind: one of :data:`KINDS`.
        layer: the number of the layer's call within a call of the module.
        size: of the error: relative to the tensor, to its largest element for one weight and a
            bias, in steps for a zero point.
    """

    kind: str
    layer: int
    size: float


class PlantedFault(TorchDispatchMode):  # type: ignore[misc]  # torch's is untyped
    """Runs with a fault; without one it counts the layers.

    Attributes:
        layers: number of calls of layers so far.
        planted: whether the layer has the operand that the fault is in.
    """

    def __init__(self, fault: Fault | None = None) -> None:
        super().__init__()
        self.fault = fault
        self.layers = 0
        self.planted = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator, with the fault in the arguments of the layer in question."""
        name = func._schema.name
        operands = _OPERANDS.get(name.removeprefix("aten::"))
        is_of_codes = any(part in name for part in _OF_CODES)
        fault = self.fault
        is_here = fault is not None and fault.layer == self.layers
        self.layers += operands is not None or is_of_codes
        if is_here and operands is not None:
            args = self._plant(args, operands)
        result = func(*args, **(kwargs or {}))
        if fault is not None and is_here and is_of_codes and fault.kind == KINDS[0]:
            self.planted = True
            return _scale(result, fault.size)
        return result

    def _plant(
        self, args: tuple[Any, ...], operands: tuple[int, int, int | None]
    ) -> tuple[Any, ...]:
        """Return the arguments with the fault, if the layer has the operand."""
        assert self.fault is not None
        activation, weight, bias = operands
        place = {"bias": bias, "scale of the input": activation, "zero point": activation}.get(
            self.fault.kind, weight
        )
        if place is None or place >= len(args) or args[place] is None:
            return args
        self.planted = True
        changed = list(args)
        changed[place] = _CHANGES[self.fault.kind](args[place], self.fault.size)
        return tuple(changed)


def _scale(tensor: torch.Tensor, size: float) -> torch.Tensor:
    return tensor * (1 + size)


def _change_one(tensor: torch.Tensor, size: float) -> torch.Tensor:
    changed = tensor.contiguous().clone()
    at = int(changed.abs().argmax())
    changed.view(-1)[at] *= 1 + size
    return changed


def _shift(tensor: torch.Tensor, size: float) -> torch.Tensor:
    """Add steps: the smallest difference of two values."""
    values = tensor.detach().double().flatten()[:100_000].unique()
    return tensor if len(values) < 2 else tensor + size * float(values.diff().min())


_CHANGES: Mapping[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "scale of the weights": _scale,
    "one weight": _change_one,
    "bias": lambda tensor, size: tensor + size * tensor.abs().max(),
    "scale of the input": _scale,
    "zero point": _shift,
}


def count_layers(module: torch.nn.Module, inputs: CallInputs) -> int:
    """Return how many layers a call of a module has."""
    args, kwargs = arguments(inputs)
    with torch.no_grad(), PlantedFault() as mode:
        module(*args, **kwargs)
    return mode.layers


def run_with_fault(
    module: torch.nn.Module, calls: Sequence[CallInputs], fault: Fault
) -> list[list[Any]] | None:
    """Run the calls of a module with a fault.

    Returns:
        The flat outputs of each call; None if the layer has no such operand.
    """
    outputs = []
    for inputs in calls:
        args, kwargs = arguments(inputs)
        with torch.no_grad(), PlantedFault(fault) as mode:
            outputs.append(tree_leaves(module(*args, **kwargs)))
        if not mode.planted:
            return None
    return outputs
