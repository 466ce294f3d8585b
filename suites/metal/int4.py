"""Linear layers with 4-bit weights: widths around a group, rows around a tile.

The runtime's kernel requires K to be a multiple of 8. Unless there is one row, it requires N to
be a multiple of 4, and complete groups.
"""

from __future__ import annotations

from functools import partial

import torch
from torch.nn import Linear, Sequential, SiLU

from harness import Case
from suites.build import nn_case, randn
from suites.metal.only import on_metal

_SIZES = {
    # M, K, N
    "one_row": (1, 64, 32),
    "rows": (7, 64, 32),
    "many_rows": (33, 128, 64),
    "one_group": (3, 32, 16),
    "narrow_result": (5, 64, 4),
    "odd_result_one_row": (1, 64, 13),
    "odd_result": (3, 64, 13),
    "result_of_6": (3, 64, 6),
    "one_result_one_row": (1, 64, 1),
    "half_group_one_row": (1, 96, 16),
    "half_group": (3, 96, 16),
    "width_40_one_row": (1, 40, 16),
    "width_40": (3, 40, 16),
    "width_12": (3, 12, 16),
    "width_33": (2, 33, 16),
    "wide": (2, 512, 24),
}


class Twice(torch.nn.Module):
    """One layer for two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Linear(64, 32)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(x) * self.layer(y)
        return result


class Cut(torch.nn.Module):
    """A layer on a slice of its input, and on a transposed input."""

    def __init__(self, turned: bool) -> None:
        super().__init__()
        self.layer = Linear(64, 32)
        self.turned = turned

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        result: torch.Tensor = self.layer(x.t() if self.turned else x[:, 64:])
        return result


CASES: list[Case] = on_metal(
    *(nn_case(f"linear/int4_{name}{'' if bias else '_no_bias'}",
              partial(Linear, inputs, outputs, bias=bias), randn(rows, inputs))
      for name, (rows, inputs, outputs) in _SIZES.items()
      for bias in ((True, False) if "row" in name else (True,))),
    nn_case("linear/int4_3d", partial(Linear, 64, 32), randn(2, 5, 64)),
    nn_case("linear/int4_3d_batch_1", partial(Linear, 64, 32), randn(1, 5, 64)),
    nn_case("linear/int4_3d_one_row", partial(Linear, 64, 32), randn(1, 1, 64)),
    nn_case("linear/int4_1d", partial(Linear, 64, 32), randn(64)),
    nn_case("linear/int4_feed_forward",
            lambda: Sequential(Linear(64, 128), SiLU(), Linear(128, 64)), randn(1, 5, 64)),
    nn_case("linear/int4_shared", Twice, randn(3, 64), randn(3, 64)),
    nn_case("linear/int4_second_columns", partial(Cut, False), randn(3, 128)),
    nn_case("linear/int4_turned", partial(Cut, True), randn(64, 3)),
    targets="metal:int4",
)  # fmt: skip
