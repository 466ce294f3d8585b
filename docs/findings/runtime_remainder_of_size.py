"""The runtime's % of a negative size has the sign of C's %."""

import torch
from common import Observation, execute, main, to_edge

LENGTH = torch.export.Dim("length", min=2, max=16)


class Offset(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (x.shape[0] - 7) % 4


def observe() -> Observation:
    x = torch.zeros(6)
    exported = torch.export.export(Offset(), (x,), dynamic_shapes=({0: LENGTH},))
    program = bytes(to_edge(exported).to_executorch().buffer)
    expected, observed = Offset()(x)[0].item(), execute(program, (x,))[0][0].item()
    return Observation(expected, observed, wrong=expected != observed)


if __name__ == "__main__":
    main(observe)
