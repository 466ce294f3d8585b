"""MLX's IndexCopyHandler writes into an operand that other operators read afterwards."""

import torch
from common import Observation, main
from mlx_package import compare_payloads, content

INPUTS = (torch.randn(5, 4), torch.tensor([1, 3]), torch.randn(2, 4))


class Kept(torch.nn.Module):
    """Stores a changed copy of a value.

    Args:
        changed: return the changed copy, not the value.
    """

    def __init__(self, changed: bool) -> None:
        super().__init__()
        self.changed = changed
        self.register_buffer("kept", torch.zeros(5, 4))

    def forward(self, x: torch.Tensor, index: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(x) + self.kept
        copy = hidden.index_copy(0, index, value)
        self.kept.copy_(copy)
        return (copy if self.changed else hidden) + 1


def observe() -> Observation:
    return compare_payloads(
        "the value and its changed copy have different payloads",
        content(Kept(changed=False), INPUTS),
        content(Kept(changed=True), INPUTS),
    )


if __name__ == "__main__":
    main(observe)
