"""coremltools changes a constant when it folds a hardswish of it."""

import numpy
import torch
from common import Observation, main
from coreml_package import Builder, Constants, Function, compare_folds, coremltools


def read_afterwards() -> list[float]:
    """Fold thresholded_relu, and return its constant."""
    with Function({}, opset_version=coremltools.target.iOS18):
        constant = Builder.const(val=numpy.array([1, 3], numpy.float32))
        Builder.thresholded_relu(x=constant, alpha=numpy.float32(2))
    return [float(value) for value in constant.val]


def penalize(self: Constants, x: torch.Tensor) -> torch.Tensor:
    weight = self.weight
    return torch.nn.functional.linear(x, weight) + torch.nn.functional.hardswish(weight).sum()


def observe() -> Observation:
    model = Constants(penalize, weight=torch.tensor([[-4.0, 3.0], [6.0, -5.0]]))
    return compare_folds(
        {"thresholded_relu, its constant": ([1, 3], read_afterwards())},
        {"program with linear and hardswish": (model, torch.ones(1, 2))},
    )


if __name__ == "__main__":
    main(observe)
