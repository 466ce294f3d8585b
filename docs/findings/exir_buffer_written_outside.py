"""Exir gives a delegate a constant copy of a buffer that the program writes outside of it."""

import torch
from common import Observation, main
from mlx_package import install, lowered


class Kept(torch.nn.Module):
    """Returns twice what earlier calls have kept."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(2, 2))
        self.register_buffer("rows", torch.tensor([1, 0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = self.kept * 2
        self.kept.index_put_((self.rows,), x, accumulate=True)
        return before


def observe() -> Observation:
    """Lower for MLX, which has no handler of index_put with accumulate, and read the signatures."""
    install()
    program = lowered(Kept(), (torch.ones(2, 2),), passes=False).exported_program()
    delegate = program.graph_module.lowered_module_0.original_module.graph_signature
    written = set(program.graph_signature.buffers_to_mutate.values())
    constant = set(delegate.buffers) - set(delegate.buffers_to_mutate.values())
    observed = {"the program writes": sorted(written), "as constants": sorted(constant & written)}
    expected = {"the program writes": ["kept"], "as constants": []}
    return Observation(expected, observed, wrong=observed["as constants"] == ["kept"])


if __name__ == "__main__":
    main(observe)
