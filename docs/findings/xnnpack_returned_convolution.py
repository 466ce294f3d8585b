"""XNNPACK permutes what is computed from a quantized convolution whose result is returned, too."""

import torch
from common import Observation, execute, main
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
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    torch.manual_seed(0)
    module, inputs = Net().eval(), (torch.randn(1, 4, 4, 4),)
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(torch.export.export(module, inputs).module(), quantizer)
    prepared(*inputs)
    quantized = convert_pt2e(prepared)
    program = torch.export.export(quantized, inputs)
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    observed = execute(bytes(edge.to_executorch().buffer), inputs)[1]
    expected = quantized(*inputs)[1]
    off, permuted = (
        float((observed - each).abs().max()) for each in (expected, expected.permute(0, 3, 1, 2))
    )
    if off < 1e-3:
        return Observation("the sigmoid", "the sigmoid", wrong=False)
    text = f"off by {off:.3g}; {permuted:.1g} off the sigmoid permuted by (0, 3, 1, 2)"
    return Observation("the sigmoid", text, wrong=True)


if __name__ == "__main__":
    main(observe)
