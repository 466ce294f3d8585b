"""Inputs other than positional tensors: nested inputs, named inputs, and plain Python values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from harness import Call, Case


class _Inputs(torch.nn.Module):
    """Takes and returns every kind of input and output of a signature."""

    def forward(
        self,
        x: torch.Tensor,
        pair: tuple[Any, list[Any]],
        *,
        parts: dict[str, torch.Tensor] | None = None,
        scale: float = 2.0,
        negate: bool = False,
    ) -> Any:
        y = x * scale + pair[0] - pair[1][0]
        if parts is not None:
            y = y - parts["b"] * 2 + parts["a"]
        return {"y": -y if negate else y, "kept": [parts, (scale, negate)]}


def _draw(count: int) -> list[torch.Tensor]:
    return [torch.randn(3, 4) for _ in range(count)]


def _tensors() -> tuple[Any, dict[str, Any]]:
    x, one, other, a, b = _draw(5)
    return (x, (one, [other])), {"parts": {"b": b, "a": a}}


def _other_order() -> list[Call]:
    x, one, other, a, b = _draw(5)
    return [Call((x, (one, [other])), {"parts": {"a": a, "b": b}})]


def _numbers() -> tuple[Any, dict[str, Any]]:
    return (*_draw(1), (1.5, [3])), {"negate": True, "scale": 3.0, "parts": None}


def _case(name: str, inputs: Callable[[], tuple[Any, dict[str, Any]]], **options: Any) -> Case:
    return Case(
        f"inputs/{name}",
        lambda: (_Inputs(), *inputs()),
        tags=frozenset({"ops", "fp32"}),
        **options,
    )


CASES: list[Case] = [
    _case("by_name_and_nested", _tensors, calls=_other_order),
    _case("numbers_flags_none", _numbers),
]
