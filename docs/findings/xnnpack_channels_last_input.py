"""XNNPACK permutes the result of a quantized operator whose input is channels-last."""

import torch
from common import Observation, execute, main, observe_permuted, quantize_for_xnnpack
from executorch.exir import to_edge_transform_and_lower


class Double(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    torch.manual_seed(0)
    inputs = (torch.randn(1, 4, 4, 4).to(memory_format=torch.channels_last),)
    program = quantize_for_xnnpack(Double(), inputs)
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    observed = execute(bytes(edge.to_executorch().buffer), inputs)[0]
    expected = program.module(check_guards=False)(*inputs)
    return observe_permuted("the sum", observed, expected, (0, 2, 3, 1))


if __name__ == "__main__":
    main(observe)
