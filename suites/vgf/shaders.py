"""Grid sampling, which Arm lowers to a compute shader beside the TOSA graphs of a VGF.

The shader depends on the number of channels, the interpolation, the padding and the corners
(backends/arm/vgf/shaders/grid_sampler.py). Images of 4 channels use a sampler; those of 3 are
padded to 4.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch.nn.functional as F

from harness import Case
from suites.build import op, randn, uniform


def _sample(name: str, channels: int, batches: int = 1, **options: Any) -> Case:
    """Sample an image at positions inside it and around it."""
    image, grid = randn(batches, channels, 6, 7), uniform(-1.4, 1.4, batches, 5, 8, 2)
    case = op(f"grid_sampler_2d/{name}", F.grid_sample, image, grid, **options)
    return replace(case, targets="vgf:fp", tags=case.tags | {"nightly"})


CASES: list[Case] = [
    _sample("4_bilinear_zeros", 4, align_corners=False),
    _sample("4_bilinear_border_corners", 4, padding_mode="border", align_corners=True),
    _sample("4_bilinear_reflection", 4, padding_mode="reflection", align_corners=False),
    _sample("4_bilinear_reflection_corners", 4, padding_mode="reflection", align_corners=True),
    _sample("4_nearest_zeros", 4, mode="nearest", align_corners=False),
    _sample("4_nearest_border_corners", 4, mode="nearest", padding_mode="border",
            align_corners=True),
    _sample("4_bicubic_zeros", 4, mode="bicubic", align_corners=False),
    _sample("3_bilinear_zeros", 3, align_corners=False),
    _sample("3_nearest_border", 3, mode="nearest", padding_mode="border", align_corners=False),
    _sample("8_bilinear_zeros", 8, align_corners=False),
    _sample("4_two_batches", 4, 2, align_corners=False),
]  # fmt: skip
