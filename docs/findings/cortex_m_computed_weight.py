"""Cortex-M reads a computed bias of a layer as int32 codes, and a computed weight without zero."""

import torch
from common import Observation, main, run_quantized_on_cortex_m


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([[[[1.0]]], [[[-0.5]]]]))
        self.bias = torch.nn.Parameter(torch.tensor([2.0, -2.0]))
        self.scale = torch.nn.Parameter(torch.tensor([2.0]))


class ScaledBias(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(x, self.weight, self.bias * self.scale)


class ScaledWeight(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(x, self.weight * self.scale)


def observe() -> Observation:
    """Run the quantized graph and the lowered one."""
    x = torch.tensor([[[[-1.0, 1.0], [2.0, 3.0]]]]).to(memory_format=torch.channels_last)
    expected, observed, errors = {}, {}, []
    for make in (ScaledBias, ScaledWeight):
        quantized, lowered = run_quantized_on_cortex_m(make(), (x,))
        name = make.__name__
        expected[name], observed[name] = _round(quantized), _round(lowered)
        errors.append((quantized - lowered).abs().max().item())
    return Observation(expected, observed, wrong=min(errors) > 0.2)


def _round(values: torch.Tensor) -> list[float]:
    return [round(value, 2) for value in values.flatten().tolist()]


if __name__ == "__main__":
    main(observe)
