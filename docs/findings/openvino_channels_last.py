"""OpenVINO's delegate reads a channels-last input as if it were contiguous."""

import torch
from common import Observation, execute, main
from openvino_package import lower_program


def observe() -> Observation:
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(8, 16, 3, padding=1).eval().to(memory_format=torch.channels_last)
    image = torch.randn(1, 8, 8, 8).to(memory_format=torch.channels_last)
    expected = layer(image)
    observed = execute(lower_program(layer, (image,)), [image])[0]
    error = float((observed - expected).abs().max())
    return Observation(
        f"values up to {float(expected.abs().max()):.2g}, and an error below 0.0001",
        f"an error of {error:.2g}",
        wrong=error > 0.1,
    )


if __name__ == "__main__":
    main(observe)
