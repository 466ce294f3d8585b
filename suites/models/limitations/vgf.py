"""Limitations of models on VGF: its shaders."""

from __future__ import annotations

from harness import Limitation
from suites.known import copy_limitation
from suites.vgf.limitations import LIMITATIONS as SHADERS

VGF: list[Limitation] = [
    # The image of the detector's attention has 64 channels and two batches.
    copy_limitation(
        SHADERS,
        "vgf:fp",
        "grid_sampler_2d/8_bilinear_zeros",
        "rt_detr/night",
        error="elements exceed the bound",
    ),
]
