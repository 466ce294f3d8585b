"""Native aten::cat and aten::constant_pad_nd permute the values of channels-last tensors."""

import torch
from common import Observation, main, run


class Cat(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x], dim=1)


class Pad(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(x, (1, 0))


def observe() -> Observation:
    image = torch.arange(8.0).reshape(1, 2, 2, 2).to(memory_format=torch.channels_last)
    pairs = [(run(module, (image,))[0], module(image)) for module in (Cat(), Pad())]
    return Observation(
        [expected.flatten().tolist() for _, expected in pairs],
        [observed.flatten().tolist() for observed, _ in pairs],
        wrong=any(not torch.equal(*pair) for pair in pairs),
    )


if __name__ == "__main__":
    main(observe)
