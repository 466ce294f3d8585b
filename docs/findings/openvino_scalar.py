"""OpenVINO's delegate cannot take or return a tensor without dimensions."""

import torch
from common import Observation, execute, main
from openvino_package import lower_program


class Sum(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum()


def observe() -> Observation:
    program = lower_program(Sum(), (torch.ones(3, 5),))
    try:
        observed = str(execute(program, [torch.ones(3, 5)])[0])
    except RuntimeError as error:
        observed = str(error)
    return Observation("tensor(15.)", observed, wrong="execute() failed" in observed)


if __name__ == "__main__":
    main(observe)
