"""XNNPACK's quantizer quantizes no convolution that is selected by module type or name."""

import torch
from common import Observation, main


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = torch.nn.Conv2d(3, 4, 3), torch.nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.conv(x))


def observe() -> Observation:
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    config, inputs = get_symmetric_quantization_config(), (torch.randn(1, 3, 8, 8),)

    def is_quantized(quantizer: XNNPACKQuantizer) -> bool:
        """Whether the convolution reads a dequantized input."""
        exported = torch.export.export(Layers().eval(), inputs).module()
        prepared = prepare_pt2e(exported, quantizer)
        prepared(*inputs)
        graph = convert_pt2e(prepared).graph
        conv = next(node for node in graph.nodes if node.target == torch.ops.aten.conv2d.default)
        return "dequantize" in str(conv.args[0].target)

    quantizers = {
        "set_global": XNNPACKQuantizer().set_global(config),
        "set_module_type": XNNPACKQuantizer().set_module_type(torch.nn.Conv2d, config),
        "set_module_name": XNNPACKQuantizer().set_module_name("conv", config),
        "set_operator_type": XNNPACKQuantizer().set_operator_type(
            torch.ops.aten.conv2d.default, config
        ),
    }
    observed = {name: is_quantized(quantizer) for name, quantizer in quantizers.items()}
    return Observation(dict.fromkeys(quantizers, True), observed, wrong=not all(observed.values()))


if __name__ == "__main__":
    main(observe)
