"""Arm's VGF backend lowers most of grid_sample to a compute shader that writes zeros."""

import base64
import struct

from common import Observation, main

DECORATE, ACCESS_CHAIN, BINDING = 71, 65, 33  # SPIR-V


def count_reads(code: bytes, binding: int) -> int:
    """Return how often a SPIR-V module computes an address in the buffer of a binding."""
    words = [word for (word,) in struct.iter_unpack("<I", code)]
    at, variable, reads = 5, None, 0
    while at < len(words):
        count, opcode = words[at] >> 16, words[at] & 0xFFFF
        operands = words[at + 1 : at + count]
        if opcode == DECORATE and operands[1:] == [BINDING, binding]:
            variable = operands[0]
        reads += opcode == ACCESS_CHAIN and operands[2] == variable
        at += count
    return reads


def observe() -> Observation:
    from executorch.backends.arm.vgf.shaders import grid_sampler

    payload = grid_sampler.build_grid_sampler_2d_payload(
        interpolation_mode=0,
        padding_mode=0,
        align_corners=False,
        input_shape=(1, 2, 5, 6),
        output_shape=(1, 2, 3, 4),
        input_dtype="torch.float32",
    )
    code = base64.b64decode(payload["shader_code"])
    image, output = (
        count_reads(code, payload[f"{role}_0_binding"]) for role in ("input", "output")
    )
    return Observation(
        "the shader for an image of two channels reads the image and writes the output",
        f"it addresses the image {image} times and the output {output} times",
        wrong=image == 0 and output > 0,
    )


if __name__ == "__main__":
    main(observe)
