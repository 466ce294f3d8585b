"""Arm drops a relu behind a layer whose result's zero point is not the smallest code."""

import torch
from common import Observation, main, run_quantized_on_tosa

X = torch.tensor([[-2.0, -1.0, 1.0, 2.0]])


class Joined(torch.nn.Module):
    """The cat gives the relu's result the parameters of the other operand, which is negative."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4, bias=False)
        torch.nn.init.eye_(self.layer.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.relu(self.layer(x)), x], 1)


def observe() -> Observation:
    from executorch.backends.arm.quantizer import get_symmetric_quantization_config

    configuration = get_symmetric_quantization_config()
    expected, observed = run_quantized_on_tosa(Joined(), (X,), "TOSA-1.0+INT", configuration)
    return Observation(
        [round(value, 2) for value in expected.flatten().tolist()],
        [round(value, 2) for value in observed.flatten().tolist()],
        wrong=bool((observed - expected).abs().max() > 0.5),
    )


if __name__ == "__main__":
    main(observe)
