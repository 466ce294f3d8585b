"""PT2E loses what a model writes to a part of a tensor between two quantized layers."""

import torch
from common import Observation, main


class Masked(torch.nn.Module):
    """Two layers. The first columns of the first result are set to 0 before the second layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 6), torch.nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        hidden[:, :4] = 0.0
        return self.last(hidden)


def observe() -> Observation:
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    torch.manual_seed(0)
    module, inputs = Masked().eval(), (torch.randn(3, 8),)
    expected, unmasked = module(*inputs), module.last(module.first(*inputs))
    exported = torch.export.export(module, inputs).module()
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(exported, quantizer)
    prepared(*inputs)
    observed = convert_pt2e(prepared)(*inputs)
    off, lost = (float((observed - each).abs().max()) for each in (expected, unmasked))
    text = f"off by {off:.2g}; {lost:.2g} off the module without the write"
    return Observation("off by roundings, about 0.02", text, wrong=off > 5 * lost)


if __name__ == "__main__":
    main(observe)
