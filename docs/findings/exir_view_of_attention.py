"""Exir cannot lower a view of attention's result."""

import torch
from common import Observation, main

INPUTS = tuple(torch.randn(1, 4, 5, 8) for _ in range(3))


class Flat(torch.nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v).flatten(2)


def observe() -> Observation:
    from executorch.exir import to_edge_transform_and_lower

    program = torch.export.export(Flat(), INPUTS)
    program.run_decompositions()  # torch's own table decomposes attention.
    try:
        to_edge_transform_and_lower(program)
    except ValueError as error:
        said = str(error).partition("\n")[0]
        return Observation("a program", said, wrong="Cannot view" in said)
    return Observation("a program", "a program", wrong=False)


if __name__ == "__main__":
    main(observe)
