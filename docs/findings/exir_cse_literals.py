"""Exir's CSE pass confuses a number with the value that has this value number."""

import torch
from common import Observation, execute, main

X = torch.randn(4, 6)
ROWS = {"x": {0: torch.export.Dim("rows", min=2, max=9)}}


class Counted(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ones(x.shape[0]).sum() - torch.ones(1).sum()


def observe() -> Observation:
    from executorch.exir import to_edge
    from executorch.exir.passes.cse_pass import CSEPass

    exported = torch.export.export(Counted(), (X,), dynamic_shapes=ROWS)
    edge = to_edge(exported).transform([CSEPass()])
    (observed,) = execute(bytes(edge.to_executorch().buffer), (X,))
    return Observation(3.0, observed.item(), wrong=observed.item() == 0)


if __name__ == "__main__":
    main(observe)
