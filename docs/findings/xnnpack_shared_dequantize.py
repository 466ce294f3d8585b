"""On XNNPACK a value read by an int8 and a floating-point operator does not reach the latter."""

import torch
from common import Observation, execute, main, quantize_for_xnnpack
from executorch.exir import to_edge_transform_and_lower


class Clamped(torch.nn.Module):
    """The quantizer knows no ``relu6``, so that both readers share a dequantize."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = x + x
        return h, torch.nn.functional.relu6(h) * 2


class Shared(torch.nn.Module):
    """Lowering drops ``type_as``, so that the dequantize before it has two readers."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = (x + x).type_as(x)
        return h, h[:, :2] * 2


class Rotated(torch.nn.Module):
    """A rotary embedding, with the extremes in the first half."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = (x + x).type_as(x)
        return torch.cat([h[:, :2], -h[:, 2:]], -1)


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    inputs = (torch.tensor([[-2.0, 2.0, 0.5, -0.25]]),)

    def outputs(program: torch.export.ExportedProgram) -> list[torch.Tensor]:
        edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
        return execute(bytes(edge.to_executorch().buffer), inputs)

    try:
        outputs(quantize_for_xnnpack(Rotated(), inputs))
    except RuntimeError as error:
        print(f"in a rotary embedding: {error}")
    for module in (Clamped(), Shared()):
        program = quantize_for_xnnpack(module, inputs)
        expected, observed = program.module()(*inputs)[0], outputs(program)[0]
        if wrong := not torch.allclose(expected, observed):
            print(f"{type(module).__name__}:")
            break
    return Observation(expected.tolist(), observed.tolist(), wrong=wrong)


if __name__ == "__main__":
    main(observe)
