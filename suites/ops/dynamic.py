"""Dynamic shapes: exported once, run at several sizes including the bounds."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch.export import Dim

from harness import Case
from suites.build import distinct, ints, nn_case, op, randn
from suites.selection import take_turns

_BATCH = Dim("batch", min=1, max=8)
_LENGTH = Dim("length", min=2, max=16)
_BATCHED = {0: _BATCH}

CASES: list[Case] = [
    op("add/dynamic_batch", torch.add, randn(4, 3), randn(4, 3),
       dynamic_shapes=(_BATCHED, _BATCHED),
       calls=[(randn(n, 3), randn(n, 3)) for n in (1, 8, 5)]),
    op("add/dynamic_broadcast", torch.add, randn(4, 3), randn(3), dynamic_shapes=(_BATCHED, None),
       calls=[(randn(n, 3), randn(3)) for n in (1, 8)]),
    op("mul/dynamic_two_dims", torch.mul, randn(4, 6, 3), randn(6, 1),
       dynamic_shapes=({0: _BATCH, 1: _LENGTH}, {0: _LENGTH}),
       calls=[(randn(b, n, 3), randn(n, 1)) for b, n in ((1, 2), (8, 16), (1, 16), (3, 5))]),
    nn_case("linear/dynamic_batch", lambda: torch.nn.Linear(6, 5), randn(4, 6),
            dynamic_shapes=(_BATCHED,), calls=[(randn(n, 6),) for n in (1, 8, 3)]),
    nn_case("linear/dynamic_sequence", lambda: torch.nn.Linear(6, 5), randn(2, 7, 6),
            dynamic_shapes=({1: _LENGTH},), calls=[(randn(2, n, 6),) for n in (2, 16)]),
    nn_case("convolution/dynamic_batch", lambda: torch.nn.Conv2d(3, 4, 3, padding=1),
            randn(4, 3, 6, 5), dynamic_shapes=(_BATCHED,),
            calls=[(randn(n, 3, 6, 5),) for n in (1, 8)]),
    nn_case("convolution/dynamic_length", lambda: torch.nn.Conv1d(3, 4, 3, padding=1),
            randn(2, 3, 7), dynamic_shapes=({2: _LENGTH},),
            calls=[(randn(2, 3, n),) for n in (2, 16)]),
    # Core ML and Metal refuse the remainder of a size.
    replace(op("add/dynamic_remainder_of_negative", lambda x: x + (x.shape[0] - 7) % 4, randn(6),
               dynamic_shapes=({0: _LENGTH},), calls=[(randn(n),) for n in (2, 16, 9)]),
            targets="portable:*|xnnpack:fp32|mlx:fp32"),
    replace(op("constant_pad_nd/dynamic_to_multiple", lambda x: F.pad(x, (0, -x.shape[0] % 8)),
               randn(6), dynamic_shapes=({0: _LENGTH},),
               calls=[(randn(n),) for n in (2, 16, 9)]),
            targets="portable:*|xnnpack:fp32|mlx:fp32"),
    op("sum/dynamic_reduced_dim", torch.sum, randn(3, 7), dim=-1, dynamic_shapes=({1: _LENGTH},),
       calls=[(randn(3, n),) for n in (2, 16)]),
    op("_softmax/dynamic_length", torch.softmax, randn(3, 7), dim=-1,
       dynamic_shapes=({1: _LENGTH},), calls=[(randn(3, n),) for n in (2, 16)]),
    op("cat/dynamic_length", lambda a, b: torch.cat([a, b], 1), randn(2, 7), randn(2, 3),
       dynamic_shapes=({1: _LENGTH}, None),
       calls=[(randn(2, n), randn(2, 3)) for n in (2, 16)]),
    op("view_copy/dynamic_flatten", lambda x: x.reshape(x.shape[0], -1), randn(4, 3, 5),
       dynamic_shapes=(_BATCHED,), calls=[(randn(n, 3, 5),) for n in (1, 8)]),
    op("slice_copy/dynamic_drop_last", lambda x: x[:, :-1], randn(3, 7),
       dynamic_shapes=({1: Dim("longer", min=3, max=16)},),
       calls=[(randn(3, n),) for n in (3, 16)]),
    op("argmax/dynamic_length", torch.argmax, distinct(3, 7), dim=1,
       dynamic_shapes=({1: _LENGTH},), calls=[(distinct(3, n),) for n in (2, 16)]),
    nn_case("embedding/dynamic_length", lambda: torch.nn.Embedding(11, 6), ints(0, 11, 2, 7),
            dynamic_shapes=({1: _LENGTH},), calls=[(ints(0, 11, 2, n),) for n in (2, 16)]),
    op("scaled_dot_product_attention/dynamic_length", F.scaled_dot_product_attention,
       randn(1, 2, 7, 8), randn(1, 2, 7, 8), randn(1, 2, 7, 8),
       dynamic_shapes=({2: _LENGTH},) * 3,
       calls=[(randn(1, 2, n, 8),) * 3 for n in (2, 16)]),
    op("arange/dynamic_positions", lambda x: x + torch.arange(x.shape[1]), randn(2, 7),
       dynamic_shapes=({1: _LENGTH},), calls=[(randn(2, n),) for n in (2, 16)]),
]

CASES = take_turns(CASES)
