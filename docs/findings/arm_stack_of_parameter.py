"""Arm cannot lower a quantized stack of a parameter in the last dimension."""

import torch
from common import Observation, lower_quantized_for_tosa, main, observe_error


class Stack(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Parameter(torch.randn(3, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([self.first, x], -1)


def observe() -> Observation:
    from executorch.backends.arm.quantizer import get_symmetric_quantization_config

    return observe_error(
        "a program",
        "aten_unsqueeze_copy_default_fused_const",
        lambda: lower_quantized_for_tosa(
            Stack(), (torch.randn(3, 5),), "TOSA-1.0+INT", get_symmetric_quantization_config()
        ),
    )


if __name__ == "__main__":
    main(observe)
