"""Linear layers and batched products, in the shapes of speech encoders.

The lowering rewrites a linear layer to a product and a sum, so that its bias is never an operand of
addmm. The strides of this rewriting matter for a batch of one, a single row, and a result with a
leading singleton dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch.nn import Linear, Sequential, SiLU

from harness import Case
from suites.build import nn_case, op, randn
from suites.metal.only import on_metal

_SHAPES = {
    "2d": (6, 16),
    "2d_one_row": (1, 16),
    "3d": (2, 6, 16),
    "3d_batch_1": (1, 6, 16),
    "3d_one_row": (1, 1, 16),
    "3d_batch_of_rows": (3, 1, 16),
    "4d": (2, 3, 4, 16),
    "4d_batch_1": (1, 3, 4, 16),
}


def _linears(inputs: int, outputs: int, label: str) -> list[Case]:
    return [
        nn_case(
            f"linear/{label}{shape}{'' if bias else '_no_bias'}",
            partial(Linear, inputs, outputs, bias=bias),
            randn(*sizes),
        )
        for shape, sizes in _SHAPES.items()
        for bias in (True, False)
    ]


class TwoHeads(torch.nn.Module):
    """Two linear layers of one input, combined by a function."""

    def __init__(self, together: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.left, self.right = Linear(16, 12), Linear(16, 12)
        self.together = together

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.together(self.left(x), self.right(x))


LINEAR = [
    *_linears(16, 24, "encoder_"),
    nn_case("linear/encoder_feed_forward",
            lambda: Sequential(Linear(16, 64), SiLU(), Linear(64, 16)), randn(1, 7, 16)),
    nn_case("linear/encoder_feed_forward_2d",
            lambda: Sequential(Linear(16, 64), SiLU(), Linear(64, 16)), randn(7, 16)),
    nn_case("linear/encoder_one_output", lambda: Linear(16, 1), randn(1, 5, 16)),
    nn_case("linear/encoder_one_input", lambda: Linear(1, 8), randn(5, 1)),
    nn_case("linear/encoder_same_layer_twice", lambda: Sequential(*[Linear(16, 16)] * 2),
            randn(1, 16)),
    nn_case("linear/two_heads_added", partial(TwoHeads, torch.add), randn(2, 5, 16)),
    nn_case("linear/two_heads_multiplied", partial(TwoHeads, torch.mul), randn(5, 16)),
    nn_case("linear/bias_of_one_row_then_more",
            partial(TwoHeads, lambda a, b: a[:1] * b), randn(5, 16)),
]  # fmt: skip

BATCHED = [
    op("bmm/encoder_scores", lambda q, k: q @ k.transpose(-1, -2), randn(1, 4, 9, 16),
       randn(1, 4, 9, 16)),
    op("bmm/encoder_scores_batch_2", lambda q, k: q @ k.transpose(-1, -2), randn(2, 4, 9, 16),
       randn(2, 4, 9, 16)),
    op("bmm/encoder_context", torch.matmul, randn(1, 4, 9, 9), randn(1, 4, 9, 16)),
    op("bmm/encoder_relative_positions", lambda q, p: q @ p.permute(0, 2, 3, 1),
       randn(1, 4, 9, 16), randn(1, 17, 4, 16)),
    op("bmm/encoder_heads_of_projection",
       lambda x, y: x.view(1, 9, 4, 16).transpose(1, 2) @ y.view(1, 9, 4, 16).permute(0, 2, 3, 1),
       randn(1, 9, 64), randn(1, 9, 64)),
    op("bmm/batch_1", torch.bmm, randn(1, 5, 6), randn(1, 6, 4)),
    op("bmm/batch_1_one_row", torch.bmm, randn(1, 1, 6), randn(1, 6, 4)),
    op("bmm/one_row_each", torch.bmm, randn(3, 1, 6), randn(3, 6, 4)),
    op("bmm/one_column_each", torch.bmm, randn(3, 5, 6), randn(3, 6, 1)),
    op("bmm/inner_1", torch.bmm, randn(3, 5, 1), randn(3, 1, 4)),
    op("bmm/shared_right", torch.matmul, randn(3, 5, 6), randn(6, 4)),
    op("bmm/shared_right_expanded", lambda a, b: torch.bmm(a, b.expand(3, 6, 4)),
       randn(3, 5, 6), randn(1, 6, 4)),
    op("bmm/row_inserted", lambda a, b: a[None] @ b, randn(5, 6), randn(1, 6, 4)),
    op("bmm/then_squeezed", lambda a, b: torch.bmm(a, b).squeeze(0) + 1.0, randn(1, 5, 6),
       randn(1, 6, 4)),
    op("mm/encoder_transposed_right", lambda a, b: a @ b.t(), randn(9, 16), randn(24, 16)),
    op("mm/transposed_left", lambda a, b: a.t() @ b, randn(16, 9), randn(16, 4)),
    op("mm/left_transposed_after_kernel", lambda a, b: (a * 2).t() @ b, randn(16, 9),
       randn(16, 4)),
    op("addmm/encoder_bias", torch.addmm, randn(24), randn(9, 16), randn(16, 24)),
    op("addmm/encoder_matrix", torch.addmm, randn(9, 24), randn(9, 16), randn(16, 24)),
    op("addmm/encoder_column", torch.addmm, randn(9, 1), randn(9, 16), randn(16, 24)),
    op("addmm/row_after_kernel", lambda c, a, b: torch.addmm(c.exp(), a, b), randn(24),
       randn(9, 16), randn(16, 24)),
    op("addmm/two_shapes_of_bias",
       lambda c, d, a, b: torch.addmm(c, a, b) * torch.addmm(d, a, b), randn(1, 24), randn(9, 24),
       randn(9, 16), randn(16, 24)),
    op("mm/plus_number", lambda a, b: a @ b + 1, randn(5, 4), randn(4, 5)),
    op("mm/plus_one_element", lambda a, b, c: a @ b + c, randn(5, 4), randn(4, 5), randn(1)),
]  # fmt: skip

CASES: list[Case] = on_metal(*LINEAR, *BATCHED)
