"""coremltools cannot convert layer_norm of a float16 module."""

import torch
from common import Observation, main
from coreml_package import convert


def observe() -> Observation:
    try:
        convert(torch.nn.LayerNorm(8).half(), (torch.randn(2, 8).half(),), "FLOAT16")
    except ValueError as error:
        return Observation("a model", f"ValueError: {error}", wrong="epsilon" in str(error))
    return Observation("a model", "a model", wrong=False)


if __name__ == "__main__":
    main(observe)
