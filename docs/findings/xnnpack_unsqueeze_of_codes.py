"""XNNPACK's runtime refuses an unsqueeze between two quantized operators with different scales."""

import torch
from common import Observation, execute, main, quantize_for_xnnpack
from executorch.exir import to_edge_transform_and_lower


class Joined(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([(x + x).unsqueeze(-1), (x * 99).unsqueeze(-1)], -1)


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    torch.manual_seed(0)
    inputs = (torch.randn(2, 4),)
    program = quantize_for_xnnpack(Joined(), inputs)
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    try:
        execute(bytes(edge.to_executorch().buffer), inputs)
    except RuntimeError as error:
        return Observation("a result", str(error).partition("\n")[0], wrong=True)
    return Observation("a result", "a result", wrong=False)


if __name__ == "__main__":
    main(observe)
