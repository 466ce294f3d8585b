"""Arm's TOSA passes move a view before a slice that is not one range of the merged dimension."""

import torch
from common import Observation, main, run_on_tosa


class Scores(torch.nn.Module):
    """Queries by the keys of a joint projection: batches, positions, (q, k, v), heads, channels."""

    def forward(self, q: torch.Tensor, qkv: torch.Tensor) -> torch.Tensor:
        return q @ qkv[:, :, 1].permute(0, 2, 3, 1)


def observe() -> Observation:
    def scores(batches: int) -> tuple[list[float], list[float]]:
        """Return the score of each batch and head, of the eager module and of the delegate.

        Queries are 0.25. The value of a key encodes its place: thousands count batches, hundreds q,
        k and v, tens heads.
        """
        whose = [torch.arange(size) for size in (batches, 3, 2)]
        batch, part, head = torch.meshgrid(*whose, indexing="ij")
        keys = (1000 * batch + 100 * part + 10 * head).float()[:, None, :, :, None]
        inputs = (torch.full((batches, 2, 5, 4), 0.25), keys.repeat(1, 3, 1, 1, 4))
        found = run_on_tosa(Scores(), inputs)
        expected, observed = (each[:, :, 0, 0].flatten() for each in (Scores()(*inputs), found))
        return expected.tolist(), observed.tolist()

    expected, observed = scores(1)
    print(f"one batch: {observed}, expected {expected}")
    if observed != expected:
        raise AssertionError("one batch is wrong, too: not what the finding says")
    expected, observed = scores(2)
    return Observation(expected, observed, wrong=observed != expected)


if __name__ == "__main__":
    main(observe)
