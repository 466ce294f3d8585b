"""Exir's CSE pass treats 0.0 and -0.0 as one number."""

import torch
from common import Observation, execute, main

X = torch.tensor([2.0])


class Zeros(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        plus = torch.ops.aten.mul.Scalar(x, 0.0)
        minus = torch.ops.aten.mul.Scalar(x, -0.0)
        return plus.reciprocal() - minus.reciprocal()


def observe() -> Observation:
    from executorch.exir import to_edge
    from executorch.exir.passes.cse_pass import CSEPass

    edge = to_edge(torch.export.export(Zeros(), (X,))).transform([CSEPass()])
    (observed,) = execute(bytes(edge.to_executorch().buffer), (X,))
    return Observation(Zeros()(X).tolist(), observed.tolist(), wrong=bool(observed.isnan().all()))


if __name__ == "__main__":
    main(observe)
