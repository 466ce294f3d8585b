"""OpenVINO drops the absolute value of a difference of constants."""

import torch
from common import Observation, execute, main
from openvino_package import lower_program


class Distance(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (torch.arange(4.0) - 3).abs()


def observe() -> Observation:
    x = torch.zeros(4)
    observed = execute(lower_program(Distance(), (x,)), [x])[0].tolist()
    expected = [3.0, 2.0, 1.0, 0.0]
    return Observation(expected, observed, wrong=observed != expected)


if __name__ == "__main__":
    main(observe)
