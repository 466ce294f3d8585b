"""Arm takes booleans among the values of a quantized where for codes."""

import torch
from common import Observation, main, run_quantized_on_tosa

X, Y = torch.tensor([2.0, 0.5, -1.0, -2.0]), torch.tensor([0.25, 0.5, -0.75, 1.0])


class Choice(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.where(x <= 0, y, x > 1)


def observe() -> Observation:
    from executorch.backends.arm.quantizer import get_symmetric_quantization_config

    configuration = get_symmetric_quantization_config()
    expected, observed = run_quantized_on_tosa(Choice(), (X, Y), "TOSA-1.0+INT", configuration)
    return Observation(
        [round(value, 2) for value in expected.tolist()],
        [round(value, 2) for value in observed.tolist()],
        wrong=bool((observed - expected).abs().max() > 0.1),
    )


if __name__ == "__main__":
    main(observe)
