"""LayerNorm in 16 bits is wrong for rows of 256 elements and more: halves are read as floats."""

import torch
from common import Observation, main, run


def observe() -> Observation:
    torch.manual_seed(0)
    module = torch.nn.LayerNorm(256).half().eval()
    row = torch.randn(1, 256).half()
    observed, expected = run(module, (row,))[0].float(), module(row).float()
    return Observation(
        [round(value, 3) for value in expected[0, :6].tolist()],
        [round(value, 3) for value in observed[0, :6].tolist()],
        wrong=not bool((observed - expected).abs().max() < 0.01),
    )


if __name__ == "__main__":
    main(observe)
