"""coremltools computes log_softmax as the logarithm of a softmax, which underflows."""

import torch
from common import Observation, main
from coreml_package import compute, convert

X = torch.tensor([[0.0, 50.0, 10.0]])


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(x, -1)


def observe() -> Observation:
    inputs = (X,)
    function, _ = convert(Model(), inputs, "FLOAT16")
    expected = Model()(*inputs).float()
    (observed,) = compute(function, *inputs)
    return Observation(
        expected.tolist(),
        observed.float().tolist(),
        wrong=not torch.allclose(observed.float().reshape(expected.shape), expected, atol=0.1),
    )


if __name__ == "__main__":
    main(observe)
