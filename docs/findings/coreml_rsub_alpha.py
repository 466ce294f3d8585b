"""coremltools drops the alpha of rsub, and the partitioner delegates it."""

import torch
from common import Observation, main
from coreml_package import compute, convert

X, Y = torch.tensor([1.0, 2.0]), torch.tensor([5.0, 7.0])


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.rsub(x, y, alpha=2)


def observe() -> Observation:
    inputs = (
        X,
        Y,
    )
    function, _ = convert(Model(), inputs)
    expected = Model()(*inputs).float()
    (observed,) = compute(function, *inputs)
    return Observation(
        expected.tolist(),
        observed.float().tolist(),
        wrong=not torch.allclose(observed.float().reshape(expected.shape), expected, atol=1e-4),
    )


if __name__ == "__main__":
    main(observe)
