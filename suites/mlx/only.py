"""Helpers of the suites for MLX only: targets of cases, and upstream's custom operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from harness import Case, Inputs, registry
from suites.build import Input, full, op

TARGETS = "mlx:fp32|mlx:bf16"


def on_mlx(*cases: Case) -> list[Case]:
    """Restrict cases to the MLX targets; their modules may call ``torch.ops.mlx``."""
    return [
        replace(case, build=_build(case), targets=TARGETS, tags=case.tags | {"mlx"})
        for case in cases
    ]


def _build(case: Case) -> Callable[[], tuple[torch.nn.Module, Inputs]]:
    def build() -> tuple[torch.nn.Module, Inputs]:
        # Asking for the backend completes executorch's package if the wheel is incomplete; the
        # import registers the operators.
        registry.backend("mlx").availability()
        import executorch.backends.mlx.custom_kernel_ops.gated_delta_rule
        import executorch.backends.mlx.custom_ops  # noqa: F401

        return case.build()

    return build


def number(value: int) -> Input:
    """One int64, such as a position that is only known at run time."""
    return full(value, 1, dtype=torch.int64)


def read_number(
    function: Callable[[torch.Tensor, int], Any], low: int, high: int
) -> Callable[[torch.Tensor, torch.Tensor], Any]:
    """Make a function of a tensor and an integer read the integer from a tensor."""

    def reads(x: torch.Tensor, position: torch.Tensor) -> Any:
        value: Any = position.item()
        torch._check(value >= low)
        torch._check(value <= high)
        return function(x, value)

    return reads


def with_number(
    name: str,
    function: Callable[[torch.Tensor, int], Any],
    x: Input,
    *numbers: int,
    high: int = 4,
) -> Case:
    """Make a case that calls a function with a tensor and an integer from a tensor, per number."""
    calls = [(x, number(value)) for value in numbers]
    return op(name, read_number(function, min(numbers), high), *calls[0], calls=calls[1:])
