"""Native division with rounding_mode="floor" returns numbers that are not whole."""

import torch
from common import Observation, main, run


class Floor(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.div(a, b, rounding_mode="floor")


def observe() -> Observation:
    torch.manual_seed(0)
    one = (torch.tensor([-9.57670783996582]), torch.tensor([1.7172131538391113]))
    many = (torch.randn(10_000) * 10, torch.rand(10_000) * 2 + 0.1)
    first, rest = run(Floor(), one)[0], run(Floor(), many)[0]
    broken = float((rest != rest.floor()).double().mean())
    return Observation(
        f"{torch.div(*one, rounding_mode='floor').item()}, and whole numbers only",
        f"{first.item():.9g}, and {broken:.1%} of 10,000 quotients are not whole",
        wrong=bool(first != first.floor()) or broken > 0,
    )


if __name__ == "__main__":
    main(observe)
