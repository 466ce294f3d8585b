"""Dynamic sizes: ranges in the model's description, and outputs that are resized."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim

from harness import Case
from suites.build import nn_case, op, randn
from suites.coreml.only import on_coreml

_COUNT = Dim("count", min=2, max=12)

CASES: list[Case] = on_coreml(
    nn_case("linear/dynamic_rows", lambda: nn.Linear(8, 6), randn(4, 8),
            dynamic_shapes=({0: _COUNT},), calls=[[randn(9, 8)], [randn(2, 8)]]),
    op("cat/dynamic_flattened", lambda x: torch.cat([x, x * 2]).flatten(), randn(4, 5),
       dynamic_shapes=({0: _COUNT},), calls=[[randn(7, 5)]]),
    nn_case("convolution/1d_dynamic_length", lambda: nn.Conv1d(3, 5, 3, padding=1), randn(1, 3, 6),
            dynamic_shapes=({2: _COUNT},), calls=[[randn(1, 3, 11)]]),
    op("softmax/dynamic_scores", lambda x: (x @ x.mT).softmax(-1), randn(5, 4),
       dynamic_shapes=({0: _COUNT},), calls=[[randn(8, 4)]]),
)  # fmt: skip
