"""Native aten::unsqueeze_copy permutes the values of channels-last tensors."""

import torch
from common import Observation, main, run


class Unsqueeze(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.unsqueeze(1)


def observe() -> Observation:
    x = torch.arange(8.0).reshape(1, 2, 2, 2).to(memory_format=torch.channels_last)
    expected = Unsqueeze()(x).flatten().tolist()
    observed = run(Unsqueeze(), (x,))[0].flatten().tolist()
    return Observation(expected, observed, wrong=expected != observed)


if __name__ == "__main__":
    main(observe)
