"""Limitations of Arm's compute shaders and of its model converter."""

from __future__ import annotations

from harness import Limitation, Status

_SHADERS = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/vgf/shaders/"

PLACEHOLDER = (
    "VgfPartitioner delegates every grid_sampler_2d. build_grid_sampler_2d_payload has shaders for "
    "images of one batch and 4 channels (3 are padded) with bilinear or nearest interpolation. All "
    "others get grid_sampler.glsl, which writes 0 to every element and reads no image "
    "(docs/findings.md). Workaround: pad the channels to 4, and sample one image at a time."
)

LIMITATIONS: list[Limitation] = [
    Limitation(
        target="vgf:fp",
        case="grid_sampler_2d/4_bicubic_zeros|grid_sampler_2d/8_bilinear_zeros"
        "|grid_sampler_2d/4_two_batches",
        reason=PLACEHOLDER,
        link=_SHADERS + "grid_sampler.glsl",
        stage="compare",
        error="looks 0 everywhere",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="vgf:fp",
        case="grid_sampler_2d/4_bilinear_reflection_corners",
        reason="_sampler_config maps reflection to Vulkan's mirrored repeat, which reflects at the "
        "edges of the image. With align_corners torch reflects at the centers of the outermost "
        "pixels, half a pixel further in; grid_sampler_sampler_align_corners.glsl does not correct "
        "it. Workaround: align_corners=False.",
        link=_SHADERS + "grid_sampler.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="vgf:fp",
        case="mul/zero_of_infinities",
        reason="Arm's model converter folds x * 0.0 to 0.0: the SPIR-V of x * 0.0 + 1.5 has no "
        "operator and returns 1.5 for every x. TOSA's MUL of an infinity or NaN and 0 is NaN, as "
        "TOSA's reference model and eager torch compute it.",
        link="https://github.com/arm/tosa-specification/blob/main/tosa.xml",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
]
