"""Cortex-M applies a relu to int8 codes where its input has another reader."""

import torch
from common import Observation, main, run_quantized_on_cortex_m


class Residual(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        torch.nn.init.ones_(self.layer.weight)
        torch.nn.init.zeros_(self.layer.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        return torch.relu(y) + y


def observe() -> Observation:
    x = torch.tensor([[-1.0], [-0.5], [0.0], [1.0], [2.0], [3.0]])
    expected, observed = run_quantized_on_cortex_m(Residual(), (x,))
    return Observation(
        [round(value, 2) for value in expected.flatten().tolist()],
        [round(value, 2) for value in observed.flatten().tolist()],
        wrong=float((expected - observed).abs().max()) > 0.1,
    )


if __name__ == "__main__":
    main(observe)
