"""Native and Arm's addmm multiply the bias by a beta of 0, which makes NaN of NaN."""

import torch
from common import Observation, main, run, run_on_tosa

INPUTS = (torch.full((1, 1), torch.nan), torch.ones(1, 2), torch.ones(2, 1))


class Product(torch.nn.Module):
    def forward(self, bias: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.addmm(bias, x, y, beta=0)


def observe() -> Observation:
    expected = Product()(*INPUTS).item()
    observed = {
        "native": run(Product(), INPUTS)[0].item(),
        "Arm": run_on_tosa(Product(), INPUTS).item(),
    }
    return Observation(expected, observed, wrong=any(value != 2 for value in observed.values()))


if __name__ == "__main__":
    main(observe)
