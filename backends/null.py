"""Null: eager kernels behind the full pipeline. The harness tests itself with it.

``null:eager`` interprets the shipped program with ATen's kernels and must always pass; the same
backend made to spoil every output (``WRONG``) must never pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness import Availability, Execution, Inputs, Precision, Recipe

if TYPE_CHECKING:
    from executorch.exir import EdgeCompileConfig


def _permissive() -> EdgeCompileConfig:
    """Accept what eager can run: operators beyond core ATen."""
    from executorch.exir import EdgeCompileConfig

    return EdgeCompileConfig(_check_ir_validity=False)


class Null:
    """Interprets programs without any delegate."""

    name = "null"

    def __init__(self, *, spoil: bool = False) -> None:
        self._spoil = spoil
        self.recipes = {"eager": Recipe("eager", Precision(), edge_config=_permissive)}

    def availability(self) -> Availability:
        """Always available."""
        return Availability(True, runtime="emulated", packages=("torch", "executorch"))

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Interpret the program with ATen's kernels."""
        from harness import AtenKernels, Interpreter
        from harness.execution.process_lock import exclusive
        from harness.model.seeding import seeded_with

        interpreter = Interpreter(program, {}, AtenKernels())
        # ATen's kernels draw from the generator of the process.
        with exclusive(), seeded_with(0):
            outputs = [interpreter(inputs) for inputs in calls]
        if self._spoil:
            outputs = [[spoil(value) for value in call] for call in outputs]
        return Execution(outputs, "emulated")


def spoil(tensor: Any) -> Any:
    """The tensor, made wrong in its last element; an empty one gets another shape, and what is no
    tensor becomes None."""
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
WRONG = Null(spoil=True)
