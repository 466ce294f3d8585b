"""XNNPACK's resize ignores the scale factor."""

import torch
from common import Observation, main, run

X = torch.arange(16.0).reshape(1, 1, 4, 4)


class Larger(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, scale_factor=1.7, mode="bilinear")


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    expected = Larger()(X)[0, 0, 0]
    (observed,) = run(Larger(), (X,), XnnpackPartitioner())
    return Observation(
        [round(value, 3) for value in expected.tolist()],
        [round(value, 3) for value in observed[0, 0, 0].tolist()],
        wrong=not torch.allclose(observed[0, 0, 0], expected, atol=1e-3),
    )


if __name__ == "__main__":
    main(observe)
