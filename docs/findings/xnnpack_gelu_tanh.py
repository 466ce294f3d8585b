"""XNNPACK computes gelu(x, approximate="tanh") as the exact gelu."""

import torch
from common import Observation, main, run

X = torch.tensor([-2.5, -1.0, 1.0, 2.5])


class Gelu(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x, approximate="tanh")


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    expected, exact = Gelu()(X), torch.nn.functional.gelu(X)
    (observed,) = run(Gelu(), (X,), XnnpackPartitioner())
    is_exact = torch.allclose(observed, exact, rtol=1e-5, atol=1e-6)
    return Observation(
        expected.tolist(),
        observed.tolist(),
        wrong=is_exact and not torch.allclose(observed, expected, rtol=1e-5, atol=1e-5),
    )


if __name__ == "__main__":
    main(observe)
