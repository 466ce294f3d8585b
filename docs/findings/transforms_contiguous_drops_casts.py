"""EnforceContiguousDimOrder removes casts as if they changed only the layout."""

import torch
from common import Observation, execute, main

X = torch.tensor([[1.0001, 2.0]])


class Rounds(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float16).float().sin()


def observe() -> Observation:
    from executorch.backends.transforms.enforce_contiguous_dim_order import (
        EnforceContiguousDimOrder,
    )
    from executorch.exir import to_edge

    edge = to_edge(torch.export.export(Rounds(), (X,))).transform([EnforceContiguousDimOrder()])
    (observed,) = execute(bytes(edge.to_executorch().buffer), (X,))
    expected = Rounds()(X)
    return Observation(
        expected.tolist(),
        observed.tolist(),
        wrong=not torch.allclose(expected, observed, rtol=1e-6),
    )


if __name__ == "__main__":
    main(observe)
