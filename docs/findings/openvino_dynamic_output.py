"""OpenVINO's delegate returns outputs of the largest size where a dimension is dynamic."""

import torch
from common import Observation, execute, main
from openvino_package import lower_program


class Softmax(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1)


def observe() -> Observation:
    length = torch.export.Dim("length", min=1, max=16)
    program = lower_program(Softmax(), (torch.randn(3, 16),), dynamic_shapes=({1: length},))
    observed = tuple(execute(program, [torch.randn(3, 7)])[0].shape)
    return Observation((3, 7), observed, wrong=observed != (3, 7))


if __name__ == "__main__":
    main(observe)
