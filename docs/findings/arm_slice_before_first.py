"""Arm's RewriteSlicePass takes a slice from before the first element for one from the end."""

import torch
from common import Observation, main

X = torch.arange(5.0)[None]


class Window(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, -7:-3]


def observe() -> Observation:
    from executorch.backends.arm._passes.rewrite_slice import RewriteSlicePass

    start = RewriteSlicePass()._fixup_start(-7, X.shape, 1)
    length = Window()(X).shape[1]
    observed = X[:, start : start + length].tolist()
    expected = Window()(X).tolist()
    return Observation(expected, observed, wrong=expected != observed)


if __name__ == "__main__":
    main(observe)
