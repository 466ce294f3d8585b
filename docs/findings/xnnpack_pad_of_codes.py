"""XNNPACK's runtime refuses the zero pad behind a quantized operator."""

import torch
from common import Observation, execute, main, quantize_for_xnnpack
from executorch.exir import to_edge_transform_and_lower


class Padded(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(x + x, (1, 2))


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    torch.manual_seed(0)
    inputs = (torch.randn(2, 4),)
    program = quantize_for_xnnpack(Padded(), inputs)
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    try:
        execute(bytes(edge.to_executorch().buffer), inputs)
    except RuntimeError as error:
        return Observation("a result", str(error).partition("\n")[0], wrong=True)
    return Observation("a result", "a result", wrong=False)


if __name__ == "__main__":
    main(observe)
