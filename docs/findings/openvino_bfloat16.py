"""OpenVINO's partitioner takes bfloat16 and int16, and its lowering has no such types."""

import torch
from common import Observation, main
from openvino_package import lower_program


class Add(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


def observe() -> Observation:
    observed = []
    for dtype in (torch.bfloat16, torch.int16):
        try:
            lower_program(Add(), (torch.ones(3, dtype=dtype),))
            observed.append("lowers")
        except KeyError as error:
            observed.append(f"KeyError: {error}")
    return Observation(["lowers"] * 2, observed, wrong="lowers" not in observed)


if __name__ == "__main__":
    main(observe)
