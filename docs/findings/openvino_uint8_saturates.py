"""OpenVINO's CPU plugin saturates sums of uint8 that wrap around in torch."""

import torch
from common import Observation, execute, main
from openvino_package import lower_program


class Add(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


def observe() -> Observation:
    inputs = (
        torch.tensor([200, 100], dtype=torch.uint8),
        torch.tensor([100, 200], dtype=torch.uint8),
    )
    observed = execute(lower_program(Add(), inputs), list(inputs))[0].tolist()
    return Observation([44, 44], observed, wrong=observed != [44, 44])


if __name__ == "__main__":
    main(observe)
