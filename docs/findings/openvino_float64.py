"""OpenVINO's CPU plugin computes float64 programs in float32."""

import torch
from common import Observation, execute, main
from openvino_package import lower_program


class Add(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def observe() -> Observation:
    x = torch.tensor([2.0**-40], dtype=torch.float64)
    observed = execute(lower_program(Add(), (x,)), [x])[0]
    expected = x + 1
    return Observation(float(expected - 1), float(observed - 1), wrong=bool(observed != expected))


if __name__ == "__main__":
    main(observe)
