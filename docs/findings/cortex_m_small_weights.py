"""CortexMQuantizer clips the bias of a channel whose weights are all small."""

import torch
from common import Observation, main, run_quantized_on_cortex_m


def observe() -> Observation:
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(3, 2, 3).eval()
    with torch.no_grad():
        layer.weight[1] = 0.0
        layer.bias.fill_(2.0)
    x = (torch.randn(1, 3, 8, 8) * 0.1).to(memory_format=torch.channels_last)
    quantized, _ = run_quantized_on_cortex_m(layer, (x,))
    expected, observed = layer(x)[0, :, 0, 0], quantized[0, :, 0, 0]
    return Observation(
        [round(value, 2) for value in expected.tolist()],
        [round(value, 2) for value in observed.tolist()],
        wrong=float((expected - observed).abs().max()) > 0.1,
    )


if __name__ == "__main__":
    main(observe)
