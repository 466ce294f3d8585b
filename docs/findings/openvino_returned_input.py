"""OpenVINO's delegate does not read an input that it also returns."""

import torch
from common import Observation, execute, main
from openvino_package import lower_program


class SumAndCopy(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + 1, x.clone()


def observe() -> Observation:
    x = torch.tensor([1.0, 2.0, 3.0])
    observed = [each.tolist() for each in execute(lower_program(SumAndCopy(), (x,)), [x])]
    expected = [[2.0, 3.0, 4.0], [1.0, 2.0, 3.0]]
    return Observation(expected, observed, wrong=observed != expected)


if __name__ == "__main__":
    main(observe)
