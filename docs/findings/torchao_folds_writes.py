"""PT2E folds a write to a buffer into a constant, and carries it out on the caller's module."""

import torch
from common import Observation, main

X = torch.ones(1, 2)


class Counted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x * self.count


class Stored(torch.nn.Module):
    """Cortex-M's quantizer traces the graph again, which reads the buffer by two nodes then."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.copy_(self.count + x[0])
        return x * self.count


class Grown(torch.nn.Module):
    """A layer whose weight is a buffer that grows with each call, by as much."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(1, 2))
        self.step = torch.nn.Parameter(torch.ones(1, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.weight.add_(self.step))


def observe() -> Observation:
    """Call what Arm's quantizer prepares, and what convert_pt2e makes, and read the buffers."""
    from executorch.backends.arm.quantizer import TOSAQuantizer, get_symmetric_quantization_config
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as xnnpack
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    arm = TOSAQuantizer(TosaCompileSpec("TOSA-1.0+INT"))
    arm.set_global(get_symmetric_quantization_config())
    counted, grown = Counted(), Grown()
    prepared = prepare_pt2e(_export(counted), arm)

    quantizer = xnnpack.XNNPACKQuantizer()
    quantizer.set_global(xnnpack.get_symmetric_quantization_config())
    calibrated = prepare_pt2e(_export(grown), quantizer)
    calibrated(X)
    before = grown.weight.tolist()
    converted = convert_pt2e(calibrated)

    calibrated = prepare_pt2e(_export(Stored()), CortexMQuantizer())
    for _ in range(4):
        calibrated(X)
    stored = convert_pt2e(calibrated)
    for name, buffer in stored.named_buffers():
        if "frozen" not in name:
            buffer.zero_()
    observed = {
        "buffer after prepare": counted.count.tolist(),
        "prepared": [prepared(X)[0, 0].item() for _ in range(3)],
        "buffer after convert": grown.weight.tolist(),
        "converted": [round(converted(X).item(), 1) for _ in range(3)],
        "converted for Cortex-M": [round(stored(X)[0, 0].item(), 1) for _ in range(3)],
    }
    expected = {
        "buffer after prepare": [0.0, 0.0],
        "prepared": [1.0, 2.0, 3.0],
        "buffer after convert": before,
        "converted": [4.0, 6.0, 8.0],
        "converted for Cortex-M": [1.0, 2.0, 3.0],
    }
    constant = [
        len(set(observed[name])) == 1
        for name in ("prepared", "converted", "converted for Cortex-M")
    ]
    return Observation(expected, observed, wrong=all(constant))


def _export(module: torch.nn.Module) -> torch.nn.Module:
    return torch.export.export(module.eval(), (X,)).module(check_guards=False)


if __name__ == "__main__":
    main(observe)
