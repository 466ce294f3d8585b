"""A wrong weight is traced to the layer that has it, wherever in the model that is."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import torch

from harness import Found, trace
from harness.model import registry

LAYERS = 6
# No other weight has this value; a program stores it as four bytes.
MARK = 0.7310585975646973


class Deep(torch.nn.Module):
    """Layers with a residual and a norm, as in a transformer."""

    def __init__(self, marked: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(LAYERS))
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(16) for _ in range(LAYERS))
        with torch.no_grad():
            self.layers[marked].weight[3, 5] = MARK

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + torch.tanh(layer(norm(x)))
        return x


def trace_wrong_weight(
    target: str, marked: int, factor: float, monkeypatch: pytest.MonkeyPatch
) -> Found:
    """Trace a model whose programs have another value for one weight than the module."""
    backend = registry.backend(target.partition(":")[0])
    execute = backend.execute
    changed = []

    def execute_altered(data: bytes, calls: Any) -> Any:
        right, wrong = struct.pack("<f", MARK), struct.pack("<f", MARK * factor)
        changed.append(data.count(right))
        return execute(data.replace(right, wrong), calls)

    monkeypatch.setattr(backend, "execute", execute_altered)
    torch.manual_seed(0)
    seen = trace(Deep(marked), target, (torch.randn(4, 16),))
    assert changed[0] == 1
    return seen


@pytest.mark.one_of(4)
@pytest.mark.parametrize(
    ("target", "marked", "factor"),
    [
        ("portable:fp32", 0, 2.0),
        ("mlx:fp32", 0, 1.001),
        ("mlx:fp32", LAYERS - 1, 2.0),
        ("tosa:fp", 0, 2.0),
    ],
)
def test_the_layer_with_the_wrong_weight_is_the_first_that_diverges(
    target: str, marked: int, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = trace_wrong_weight(target, marked, factor, monkeypatch).first
    assert first is not None
    name = "linear" if marked == 0 else f"linear_{marked}"
    assert (first.node, first.born) == (name, True)
