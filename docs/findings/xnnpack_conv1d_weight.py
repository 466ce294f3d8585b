"""XNNPACK gives a fourth dimension to the weight of a conv1d, also for its other readers."""

import torch
from common import Observation, load, lower, main


class Tied(torch.nn.Module):
    """A layer whose weight is read a second time."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv1d(1, 2, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.layer(x), self.layer.weight * 2


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    module, x = Tied(), torch.ones(1, 1, 4)
    program = bytes(lower(module, (x,), XnnpackPartitioner()).to_executorch().buffer)
    expected = [list(each.shape) for each in module(x)]
    try:
        observed = [list(each.shape) for each in load(program).execute([x])]
    except RuntimeError as error:
        return Observation(expected, f"RuntimeError: {error}", wrong="failed with" in str(error))
    return Observation(expected, observed, wrong=observed != expected)


if __name__ == "__main__":
    main(observe)
