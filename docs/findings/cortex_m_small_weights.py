"""CortexMQuantizer clips the bias of a channel whose weights are all small."""

import torch
from common import Observation, main


def observe() -> Observation:
    from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    torch.manual_seed(0)
    layer = torch.nn.Conv2d(3, 2, 3).eval()
    with torch.no_grad():
        layer.weight[1] = 0.0
        layer.bias.fill_(2.0)
    x = (torch.randn(1, 3, 8, 8) * 0.1).to(memory_format=torch.channels_last)
    exported = torch.export.export(layer, (x,)).module(check_guards=False)
    prepared = prepare_pt2e(exported, CortexMQuantizer())
    prepared(x)
    expected, observed = layer(x)[0, :, 0, 0], convert_pt2e(prepared)(x)[0, :, 0, 0]
    return Observation(
        [round(value, 2) for value in expected.tolist()],
        [round(value, 2) for value in observed.tolist()],
        wrong=float((expected - observed).abs().max()) > 0.1,
    )


if __name__ == "__main__":
    main(observe)
