"""Biases are rounded as the delegate stores them, and the delegate then equals the reference."""

from __future__ import annotations

import pytest
import torch

from harness import Case, Tester


class Outliers(torch.nn.Module):
    """A layer whose input has values far from the others: the unit of its sums is large."""

    def __init__(self, *, convolves: bool) -> None:
        super().__init__()
        self.layer: torch.nn.Module = (
            torch.nn.Conv2d(4, 6, 3) if convolves else torch.nn.Linear(8, 6)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x))


def build(*, convolves: bool) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    x = 0.01 * torch.randn((2, 4, 8, 8) if convolves else (64, 8))
    x.view(-1)[0] = 30.0
    return Outliers(convolves=convolves), (x,)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("convolves", [False, True])
@pytest.mark.parametrize("target", ["xnnpack:int8", "xnnpack:int8_per_tensor"])
def test_the_delegate_equals_the_reference(target: str, convolves: bool) -> None:
    case = Case("layer/outliers", lambda: build(convolves=convolves))
    tester = Tester(case, target).export().quantize().lower().to_executorch().serialize().run()
    observed = tester.execution.outputs[0][0]
    expected = tester.reference_module(*tester.built.inputs)
    assert torch.equal(observed, expected)
    graph = tester.reference_module
    (name,) = [name for name, _ in graph.named_buffers() if name.endswith("stored_bias")]
    assert not torch.equal(graph.get_buffer(name), tester.built.module.layer.bias)


def test_a_layer_that_stays_in_float_keeps_its_bias() -> None:
    class Sum(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)

    case = Case("layer/dynamic", lambda: (Sum(), (torch.randn(3, 8),)))
    tester = Tester(case, "xnnpack:int8_dynamic").export().quantize()
    assert not [name for name, _ in tester.reference_module.named_buffers() if "stored" in name]
