"""Arm's quantizer gives a negation another scale than its input, and NEGATE has none."""

import torch
from common import Observation, main, run_quantized_on_tosa

X = torch.linspace(-2.0, 2.0, 9)[None]


class Negated(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return -torch.relu(x)


def observe() -> Observation:
    from executorch.backends.arm.quantizer import get_symmetric_quantization_config

    configuration = get_symmetric_quantization_config()
    expected, observed = run_quantized_on_tosa(Negated(), (X,), "TOSA-1.0+INT", configuration)
    step = 4 / 255  # of the input; that of the output is half of it
    return Observation(
        [round(value, 3) for value in expected.flatten().tolist()],
        [round(value, 3) for value in observed.flatten().tolist()],
        wrong=bool((observed - expected).abs().max() > 10 * step),
    )


if __name__ == "__main__":
    main(observe)
