"""Arm's 16-bit quantizer and tables: a function of small values is interpolated in one segment."""

import torch
from common import Observation, main, run_quantized_on_tosa

X = torch.linspace(0.0022, 0.03, 8)[None]  # variances of a LayerNorm


class Root(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.rsqrt(x)


def observe() -> Observation:
    from executorch.backends.arm.quantizer import get_symmetric_a16w8_quantization_config

    configuration = get_symmetric_a16w8_quantization_config()
    expected, observed = run_quantized_on_tosa(Root(), (X,), "TOSA-1.0+INT+int16", configuration)
    return Observation(
        [round(value, 3) for value in expected.flatten().tolist()],
        [round(value, 3) for value in observed.flatten().tolist()],
        wrong=bool(((observed - expected) / expected).abs().max() > 0.1),
    )


if __name__ == "__main__":
    main(observe)
