"""The null backend: ATen's kernels behind the full pipeline. Tests of the harness use it.

``null:eager`` interprets the serialized program with ATen's kernels and must always pass.
``SPOILED_BACKEND``, the same backend with every output changed, must never pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness import Inputs
from harness.backend_api import Availability, Execution, Precision, Recipe

if TYPE_CHECKING:
    from executorch.exir import EdgeCompileConfig


def _allow_all_operators() -> EdgeCompileConfig:
    """Allow operators outside core ATen: eager kernels can run them."""
    from executorch.exir import EdgeCompileConfig

    return EdgeCompileConfig(_check_ir_validity=False)


class Null:
    """Interprets programs without any delegate."""

    name = "null"

    def __init__(self, *, spoil: bool = False) -> None:
        self._spoil = spoil
        self.recipes = {"eager": Recipe("eager", Precision(), edge_config=_allow_all_operators)}

    def availability(self) -> Availability:
        """Always available."""
        return Availability(True, runtime="emulated", packages=("torch", "executorch"))

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Interpret the program with ATen's kernels."""
        from harness.backend_api import AtenKernels, Interpreter
        from harness.execution.process_lock import hold_process_lock
        from harness.model.seeding import seed_generators_with

        interpreter = Interpreter(program, {}, AtenKernels())
        # ATen's kernels draw random numbers from the process's generator.
        with hold_process_lock(), seed_generators_with(0):
            outputs = [interpreter(inputs) for inputs in calls]
        if self._spoil:
            outputs = [[spoil_value(value) for value in call] for call in outputs]
        return Execution(outputs, "emulated")


def spoil_value(tensor: Any) -> Any:
    """Return a wrong copy of an output.

    The last element of a tensor changes. An empty tensor gets another shape. Any other value
    becomes None.
    """
    import torch

    if not isinstance(tensor, torch.Tensor):
        return None
    if tensor.numel() == 0:
        return tensor.unsqueeze(0)
    wrong = tensor.clone()
    last = tuple(size - 1 for size in tensor.shape)
    value = tensor[last]
    if tensor.dtype == torch.bool:
        wrong[last] = ~value
    elif tensor.is_floating_point():
        wrong[last] = torch.where(value.isfinite(), value + 0.5 * (1 + value.abs()), 0.0)
    else:
        wrong[last] = value - 1
    return wrong


BACKEND = Null()
SPOILED_BACKEND = Null(spoil=True)
