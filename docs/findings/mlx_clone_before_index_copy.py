"""MLX's RemoveNoOpsPass removes a clone whose original is written before the clone is read."""

import torch
from common import Observation, main
from mlx_package import compare_payloads, content

INPUTS = (torch.tensor([1, 3]), torch.randn(2, 4))


class Change(torch.nn.Module):
    """Returns the difference between a memory and its earlier content.

    Args:
        early: remember the content before the write, not after it.
    """

    def __init__(self, early: bool) -> None:
        super().__init__()
        self.early = early
        self.register_buffer("kept", torch.zeros(5, 4))

    def forward(self, index: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        if self.early:
            before = self.kept.clone()
            self.kept.index_copy_(0, index, value)
        else:
            self.kept.index_copy_(0, index, value)
            before = self.kept.clone()
        return self.kept * 2 - before


def observe() -> Observation:
    return compare_payloads(
        "copies before and after the write have different payloads",
        content(Change(early=True), INPUTS),
        content(Change(early=False), INPUTS),
    )


if __name__ == "__main__":
    main(observe)
