"""XNNPACK gives the second use of an int8 linear layer the bias of the first use."""

import torch
from common import Observation, execute, main, quantize_for_xnnpack
from executorch.exir import to_edge_transform_and_lower


class Twice(torch.nn.Module):
    """The second use gets inputs a thousand times as large, so its quantized bias differs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)
        with torch.no_grad():
            self.layer.bias.fill_(1.0)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.layer(x), self.layer(1000 * x)


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    torch.manual_seed(0)
    inputs = (torch.randn(4, 8),)
    quantized = quantize_for_xnnpack(Twice(), inputs)

    def outputs(*partitioners: object) -> list[torch.Tensor]:
        edge = to_edge_transform_and_lower(quantized, partitioner=list(partitioners))
        return execute(bytes(edge.to_executorch().buffer), inputs)

    expected, observed = quantized.module()(*inputs), outputs(XnnpackPartitioner())
    # The second result's dequantize; two correct roundings differ by at most one code.
    result = next(iter(reversed(quantized.graph.nodes))).args[0][1]
    code = float(result.args[1])
    for use, (right, came) in enumerate(zip(expected, observed, strict=True), 1):
        print(f"use {use}: off by up to {float((came - right).abs().max()):.4f}")
    off = ((observed[1] - expected[1]) / code).round().abs().max()
    return Observation(
        expected[1][0].tolist(),
        f"{observed[1][0].tolist()}, off by up to {int(off)} codes of {code:.4f}",
        wrong=int(off) > 1,
    )


if __name__ == "__main__":
    main(observe)
