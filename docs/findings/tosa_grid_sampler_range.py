"""Arm's quantizer gives grid_sample a fixed range of -1 to 1 and clips the values beyond it."""

import torch
from common import Observation, main

IMAGE = torch.linspace(-3.0, 3.0, 16).reshape(1, 1, 4, 4)
GRID = torch.nn.functional.affine_grid(torch.eye(2, 3)[None], [1, 1, 4, 4])  # of the pixels


class Sampled(torch.nn.Module):
    def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.grid_sample(x, grid)


def observe() -> Observation:
    from executorch.backends.arm.quantizer import (
        TOSAQuantizer,
        get_symmetric_quantization_config,
    )
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    specification = TosaCompileSpec("TOSA-1.0+INT")
    quantizer = TOSAQuantizer(specification).set_global(get_symmetric_quantization_config())
    inputs = (IMAGE, GRID)
    prepared = prepare_pt2e(
        torch.export.export(Sampled(), inputs).module(check_guards=False), quantizer
    )
    prepared(*inputs)
    observed = convert_pt2e(prepared)(*inputs)
    expected = Sampled()(*inputs)
    step = 6 / 255
    return Observation(
        [round(value, 3) for value in expected.flatten().tolist()],
        [round(value, 3) for value in observed.flatten().tolist()],
        wrong=bool((observed - expected).abs().max() > 10 * step),
    )


if __name__ == "__main__":
    main(observe)
