"""coremltools folds a descending order of constants by negating them, which wraps."""

import numpy
import torch
from common import Observation, main
from coreml_package import Constants, compare_folds, fold

LEAST = -(2**31)


def observe() -> Observation:
    integers = torch.tensor([LEAST, 1, 3, 2], dtype=torch.int32)
    codes = torch.tensor([0, 1, 3, 2], dtype=torch.uint8)
    order = Constants(lambda self, x: x + torch.argsort(self.c, descending=True), c=integers)
    largest = Constants(lambda self, x: x + torch.topk(self.c, 2)[0], c=codes)
    ranked = Constants(lambda self, x: x + torch.sort(self.c, descending=True)[0], c=integers)
    return compare_folds(
        {
            "argsort of int32": (
                [2, 3, 1, 0],
                fold("argsort", x=integers.numpy()),
            ),
            "topk of uint8": (
                [3, 2],
                fold("topk", x=codes.numpy(), k=numpy.int32(2), return_indices=False),
            ),
        },
        {
            "program with argsort": (order, torch.zeros(4, dtype=torch.int64)),
            "program with sort": (ranked, torch.zeros(4, dtype=torch.int32)),
            "program with topk": (largest, torch.zeros(2, dtype=torch.int32)),
        },
    )


if __name__ == "__main__":
    main(observe)
