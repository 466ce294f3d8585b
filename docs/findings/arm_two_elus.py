"""Arm gives two ELUs of one tensor the parameters of the first."""

import torch
from common import Observation, main, run_quantized_on_tosa

X = torch.tensor([[-3.0, -2.0, -1.0, 1.0]])


class TwoELUs(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.elu(x, 1.0) - torch.nn.functional.elu(x, 0.25)


def observe() -> Observation:
    from executorch.backends.arm.quantizer import get_symmetric_quantization_config

    configuration = get_symmetric_quantization_config()
    expected, observed = run_quantized_on_tosa(TwoELUs(), (X,), "TOSA-1.0+INT", configuration)
    return Observation(
        [round(value, 2) for value in expected.flatten().tolist()],
        [round(value, 2) for value in observed.flatten().tolist()],
        wrong=bool((observed - expected).abs().max() > 0.3),
    )


if __name__ == "__main__":
    main(observe)
