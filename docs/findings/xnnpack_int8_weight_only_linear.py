"""XNNPACK drops the weight scales of torchao's Int8WeightOnly linear layer."""

import torch
from common import Observation, main, run


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    torch.manual_seed(0)
    layer = torch.nn.Linear(32, 16, bias=False).eval().requires_grad_(False)
    quantize_(layer, Int8WeightOnlyConfig())
    inputs = (torch.randn(4, 32),)
    eager, portable = layer(*inputs), run(layer, inputs)[0]
    delegated = run(layer, inputs, XnnpackPartitioner())[0]
    torch.testing.assert_close(portable, eager)  # The quantized layer itself is right.
    # Largest difference of two scaled sums of 32 float32 products (Higham, section 3.1).
    unit = torch.finfo(torch.float32).eps / 2
    bound = 2 * 34 * unit * (inputs[0].abs() @ layer.weight.dequantize().abs().T)
    print("delegated / eager:", (delegated / eager)[0, :4].tolist())
    print("1 / scale        :", (1 / layer.weight.scale.flatten())[:4].tolist())
    return Observation(
        f"{eager[0, :4].tolist()} (portable gives the same)",
        delegated[0, :4].tolist(),
        wrong=bool(((delegated - eager).abs() > bound).any()),
    )


if __name__ == "__main__":
    main(observe)
