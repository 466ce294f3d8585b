"""OpenVINO's partitioner keeps pixel_shuffle whole, and does not take it."""

import torch
from common import Observation, main
from openvino_package import lower_program


def observe() -> Observation:
    try:
        lower_program(torch.nn.PixelShuffle(2), (torch.randn(1, 4, 3, 3),))
        observed = "it lowers"
    except RuntimeError as error:
        observed = str(error).partition("\n")[0]
    return Observation("it lowers", observed, wrong="was not decomposed or delegated" in observed)


if __name__ == "__main__":
    main(observe)
