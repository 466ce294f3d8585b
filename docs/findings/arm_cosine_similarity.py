"""Arm's quantizer computes cosine_similarity over dimension 1, whatever dim says."""

import torch
from common import Observation, main, rewrite_for_tosa

X = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
Y = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])


class Similarity(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cosine_similarity(x, y, dim=-1)


def observe() -> Observation:
    expected = Similarity()(X, Y)
    observed = rewrite_for_tosa(Similarity(), (X, Y))
    wrong = not torch.allclose(expected, observed, atol=0.05)
    return Observation(expected.tolist(), observed.tolist(), wrong=wrong)


if __name__ == "__main__":
    main(observe)
