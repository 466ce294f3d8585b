"""coremltools cannot fold constants to a number in squeeze and in a slice of float16."""

import torch
from common import Observation, main
from coreml_package import Constants, compare_folds


def observe() -> Observation:
    squeeze = Constants(lambda self, x: x + torch.squeeze(self.c), c=torch.full((1, 1), 7.0))
    select = Constants(lambda self, x: x + self.c[1].float(), c=torch.arange(3.0).half())
    return compare_folds(
        {},
        {
            "program with squeeze": (squeeze, torch.zeros(2)),
            "program with an element of float16": (select, torch.zeros(2)),
        },
    )


if __name__ == "__main__":
    main(observe)
