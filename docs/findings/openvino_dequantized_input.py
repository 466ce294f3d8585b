"""OpenVINO ignores scale and zero point of a dequantize operator that follows no quantize."""

import torch
import torch.ao.quantization.fx._decomposed  # registers operators
from common import Observation, execute, main
from openvino_package import lower_program


class Decode(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        decode = torch.ops.quantized_decomposed.dequantize_per_tensor.default
        return decode(x, 0.5, 3, -128, 127, torch.int8) + 1.0


def observe() -> Observation:
    x = torch.tensor([1, 5, -7], dtype=torch.int8)
    observed = execute(lower_program(Decode(), (x,)), [x])[0].tolist()
    expected = Decode()(x).tolist()
    return Observation(expected, observed, wrong=observed != expected)


if __name__ == "__main__":
    main(observe)
