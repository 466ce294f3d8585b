"""MLX lowers ascending and descending sorts, largest and smallest topk, to one program."""

from collections.abc import Callable

import torch
from common import Observation, main
from mlx_package import content, operators


class Call(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def observe() -> Observation:
    inputs = (torch.tensor([[3.0, 1.0, 2.0]]),)
    pairs = {
        "sort": (
            Call(lambda x: torch.sort(x, descending=False).values),
            Call(lambda x: torch.sort(x, descending=True).values),
        ),
        "topk": (
            Call(lambda x: torch.topk(x, 2, largest=True).values),
            Call(lambda x: torch.topk(x, 2, largest=False).values),
        ),
    }
    same = {}
    for name, (one, other) in pairs.items():
        print(f"{name} in eager: {one(*inputs).tolist()} and {other(*inputs).tolist()}")
        lowered = content(other, inputs)
        print(f"{name} lowered: {operators(lowered['instructions'])}")
        same[name] = content(one, inputs) == lowered
    return Observation(
        "programs with different results have different payloads",
        f"but for the names of values, the payload is the same: {same}",
        wrong=any(same.values()),
    )


if __name__ == "__main__":
    main(observe)
