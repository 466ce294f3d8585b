"""XNNPACK permutes what is computed from a quantized convolution whose result is returned, too."""

import torch
from common import Observation, execute, main, observe_permuted, quantize_for_xnnpack
from executorch.exir import to_edge_transform_and_lower


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.conv(x)
        return logits, torch.sigmoid(logits)


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    torch.manual_seed(0)
    module, inputs = Net().eval(), (torch.randn(1, 4, 4, 4),)
    program = quantize_for_xnnpack(module, inputs)
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    observed = execute(bytes(edge.to_executorch().buffer), inputs)[1]
    expected = program.module(check_guards=False)(*inputs)[1]
    return observe_permuted("the sigmoid", observed, expected, (0, 3, 1, 2))


if __name__ == "__main__":
    main(observe)
