"""XNNPACK leaves tensors around a quantized layer that it refuses in int8, declared as float32."""

import torch
from common import (
    Observation,
    load,
    main,
    quantize_for_xnnpack,
    to_edge_transform_and_lower,
)


class Scaled(torch.nn.Module):
    """A layer whose bias is computed, as with a learning rate of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([[[[1.0]]], [[[-2.0]]]]))
        self.bias = torch.nn.Parameter(torch.tensor([0.5, -0.5]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(x, self.weight, self.bias * 2)


def observe() -> Observation:
    """Quantize with XNNPACK's quantizer, and run the quantized graph and the program."""
    import executorch.kernels.quantized  # noqa: F401  (kernels of what stays outside)
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    x = (torch.arange(4.0).reshape(1, 1, 2, 2),)
    quantized = quantize_for_xnnpack(Scaled(), x, is_per_channel=True)
    edge = to_edge_transform_and_lower(quantized, partitioner=[XnnpackPartitioner()])
    program = bytes(edge.to_executorch().buffer)
    expected, observed = quantized.module()(*x), load(program).execute(list(x))[0]
    wrong = (expected - observed).abs().max().item() > 0.1
    return Observation(_round(expected), _round(observed), wrong)


def _round(values: torch.Tensor) -> list[float]:
    return [round(value, 2) for value in values.flatten().tolist()]


if __name__ == "__main__":
    main(observe)
