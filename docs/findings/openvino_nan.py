"""OpenVINO's CPU plugin loses NaN in relu and maximum."""

import torch
from common import Observation, execute, main
from openvino_package import lower_program


class Both(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(x), torch.maximum(x, y)


def observe() -> Observation:
    inputs = (torch.tensor([float("nan"), 1.0]), torch.tensor([2.0, 2.0]))
    results = execute(lower_program(Both(), inputs), list(inputs))
    observed = [each[0].item() for each in results]
    return Observation(["nan", "nan"], observed, wrong=any(each == each for each in observed))


if __name__ == "__main__":
    main(observe)
