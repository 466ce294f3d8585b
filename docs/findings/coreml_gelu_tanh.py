"""coremltools drops the approximate argument of gelu."""

import torch
from common import Observation, main
from coreml_package import compute, convert

X = torch.tensor([-2.0, -1.0, 0.5, 2.0])


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x, approximate="tanh")


def observe() -> Observation:
    inputs = (X,)
    function, _ = convert(Model(), inputs)
    expected = Model()(*inputs).float()
    (observed,) = compute(function, *inputs)
    return Observation(
        expected.tolist(),
        observed.float().tolist(),
        wrong=not torch.allclose(observed.float().reshape(expected.shape), expected, atol=1e-5),
    )


if __name__ == "__main__":
    main(observe)
