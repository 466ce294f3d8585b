"""Cortex-M clamps the zero point by which it fuses a hardsigmoid into the layer before it."""

import torch
from common import Observation, main, run_quantized_on_cortex_m

X = torch.tensor([[-1.0], [0.0], [1.0]])


class Low(torch.nn.Module):
    """Returns the hardsigmoid of values around -2, which is 0 to 0.33."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        torch.nn.init.ones_(self.layer.weight)
        torch.nn.init.constant_(self.layer.bias, -2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.hardsigmoid(self.layer(x))


def observe() -> Observation:
    """Run the quantized graph and the lowered one."""
    quantized, lowered = run_quantized_on_cortex_m(Low(), (X,))
    expected, observed = (
        [round(value, 3) for value in values.flatten().tolist()] for values in (quantized, lowered)
    )
    return Observation(expected, observed, wrong=bool((quantized - lowered).abs().max() > 0.02))


if __name__ == "__main__":
    main(observe)
