"""PT2E folds a copy of a parameter that is written to later, and ignores what is written."""

import torch
from common import Observation, main, quantize_for_xnnpack, rewrite_for_tosa


class Part(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kept = torch.nn.Parameter(torch.ones(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.kept.clone()
        y[:, :1] = x
        return y * 2


def observe() -> Observation:
    inputs = (torch.full((2, 1), 5.0),)
    expected = Part()(*inputs).tolist()
    quantized = quantize_for_xnnpack(Part(), inputs).module(check_guards=False)
    observed = {
        "prepared by Arm's quantizer": rewrite_for_tosa(Part(), inputs).tolist(),
        "converted, with XNNPACK's": [
            [round(item, 1) for item in row] for row in quantized(*inputs).tolist()
        ],
    }
    return Observation(
        expected, observed, wrong=all(result == [[2.0] * 3] * 2 for result in observed.values())
    )


if __name__ == "__main__":
    main(observe)
