"""coremltools multiplies the epsilon of rms_norm by the square of the largest value."""

import torch
from common import Observation, main
from coreml_package import compute, convert

X = torch.full((1, 64), 0.05)
X[0, 0] = 5.0


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, (64,), None, 1e-3)


def observe() -> Observation:
    inputs = (X,)
    function, _ = convert(Model(), inputs)
    expected = Model()(*inputs).float()
    (observed,) = compute(function, *inputs)
    return Observation(
        expected[0, :2].tolist(),
        observed[0, :2].float().tolist(),
        wrong=not torch.allclose(observed.float().reshape(expected.shape), expected, atol=1e-4),
    )


if __name__ == "__main__":
    main(observe)
