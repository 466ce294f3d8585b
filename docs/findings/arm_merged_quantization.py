"""Arm's FuseDuplicateUsersPass merges equal operators whose results have different scales."""

import torch
from common import Observation, main, run_quantized_on_tosa

X, Z = torch.tensor([[-0.9, -0.3, 0.3, 0.9]]), torch.tensor([[-60.0, -20.0, 20.0, 60.0]])


class Gated(torch.nn.Module):
    """The cat gives the first tanh the scale of its other operand; the product leaves the second.

    Args:
        once: compute one tanh for both.
    """

    def __init__(self, once: bool = False) -> None:
        super().__init__()
        self.once = once

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        gate = torch.tanh(x)
        joined = torch.cat([gate if self.once else torch.tanh(x), z], 1)
        return joined, gate * x


def observe() -> Observation:
    from executorch.backends.arm.quantizer import get_symmetric_quantization_config

    configuration = get_symmetric_quantization_config()
    expected, observed = run_quantized_on_tosa(Gated(), (X, Z), "TOSA-1.0+INT", configuration)
    joined, found = expected[0], observed[0]
    return Observation(
        [round(value, 2) for value in joined.flatten().tolist()],
        [round(value, 2) for value in found.flatten().tolist()],
        wrong=bool((found - joined).abs().max() > 10),
    )


if __name__ == "__main__":
    main(observe)
