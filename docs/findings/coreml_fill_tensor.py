"""coremltools fills with 0 where the value is a tensor that the program gets."""

import torch
from common import Observation, main
from coreml_package import compute, convert

X, Y = torch.zeros(3), torch.tensor(0.5)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.fill(x, y)


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
