"""XNNPACK cannot lower a program that returns a value and its clone."""

import torch
from common import Observation, lower, main


class Features(torch.nn.Module):
    """Returns features with and without dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        self.dropout = torch.nn.Dropout()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.layer(x)
        return features, self.dropout(features)


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    try:
        lower(Features(), (torch.randn(2, 4),), XnnpackPartitioner())
    except RuntimeError as error:
        observed = f"RuntimeError: {error}"
        return Observation("a program", observed, wrong="is already in the inputs" in observed)
    return Observation("a program", "a program", wrong=False)


if __name__ == "__main__":
    main(observe)
