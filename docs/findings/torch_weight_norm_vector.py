"""The decomposition of a weight norm divides a vector by its norm instead of by its elements."""

import torch
from common import Observation, main


def observe() -> Observation:
    torch.manual_seed(0)
    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.LayerNorm(4)).eval()
    with torch.no_grad():
        layer.parametrizations.weight.original1.copy_(torch.tensor([3.0, -4.0, 1.0, 2.0]))
    x = torch.tensor([[1.0, -1.0, 1.0, -1.0]])
    exported = torch.export.export(layer, (x,))
    observed = exported.run_decompositions().module(check_guards=False)(x)
    expected = layer(x)
    return Observation(
        [round(value, 2) for value in expected[0].tolist()],
        [round(value, 2) for value in observed[0].tolist()],
        wrong=float((expected - observed).detach().abs().max()) > 0.01,
    )


if __name__ == "__main__":
    main(observe)
