"""Reductions over as many elements as a threadgroup has threads, 1,024, and over more.

Inductor's MPS code reduces up to 1,024 elements in one stage. Longer rows take several, the last of
which is cut off where the length is no multiple. Indices that are computed are checked against the
bounds that their computation leaves open.
"""

from __future__ import annotations

import torch

from harness import Case
from harness.model.registry import NIGHTLY
from suites.build import distinct, ints, op, randn, uniform, values
from suites.metal.only import on_metal

LIMITS = torch.tensor([[-9.0], [9.0], [2.5]])
"""Above which each row has all, none, or a few of many normal values."""


def _lookup(low: int | None, high: int | None) -> Case:
    """An index that is cut off below, above, at both ends, or nowhere."""

    def read(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        if low is not None or high is not None:
            index = torch.clamp(index, low, high)
        return table[index]

    name = f"{'low' if low is not None else ''}{'high' if high is not None else ''}" or "open"
    return op(f"bounded_index/{name}", read, randn(7, 3), ints(0, 7, 5))


CASES: list[Case] = on_metal(
    *(
        case
        for length in (1500, 1024)
        for case in (
            op(f"sum/of_{length}", torch.sum, randn(3, length), dim=-1),
            op(f"mean/of_{length}", torch.mean, randn(3, length), dim=-1),
            op(f"var/of_{length}", torch.var, randn(3, length), dim=-1),
            op(f"amax/of_{length}_negative", torch.amax, uniform(-9, -1, 3, length), dim=-1),
            op(f"amin/of_{length}_positive", torch.amin, uniform(1, 9, 3, length), dim=-1),
            op(f"argmax/of_{length}", lambda x: x.argmax(-1),
               distinct(3, length, step=0.25, offset=-2000)),
            op(f"prod/of_{length}", lambda x: x.prod(-1), uniform(0.99, 1.01, 3, length)),
            op(f"any/of_{length}", lambda x: (x > LIMITS).any(-1), randn(3, length)),
        )
    ),
    # Above zero, so that a search that begins at zero, or with the wrong end, is wrong.
    op("argmin/of_1500", lambda x: x.argmin(-1), distinct(3, 1500, step=0.25, offset=2000)),
    op("argmin/of_1500_int32", lambda x: x.argmin(-1),
       distinct(3, 1500, step=2, offset=2000, dtype=torch.int32)),
    # In one row no element is above the value that the search begins with.
    op("argmax/of_1500_minus_inf", lambda x, low: torch.where(low, -torch.inf, x).argmax(-1),
       distinct(8, 1500, step=0.25), values((1, *[0] * 7), 8, 1, dtype=torch.bool)),
    op("sum/of_1500_int64", torch.sum, ints(-99, 99, 3, 1500), dim=-1),
    op("amax/of_1500_int32", torch.amax, ints(-900, -9, 3, 1500, dtype=torch.int32), dim=-1),
    # A reduced index that takes a division and a remainder in the loop over its parts.
    op("amax/of_two_orders", lambda x: (x + x.mT.reshape(3, 30, 50)).amax((1, 2)),
       randn(3, 30, 50), tags=[NIGHTLY]),
    op("var/of_30_by_50_apart", torch.var, randn(30, 3, 50), dim=(0, 2), tags=[NIGHTLY]),
    # Elements that are padded, not read, in a loop over parts.
    op("sum/of_1500_padded", lambda x: torch.nn.functional.pad(x, (3, 2), value=0.5).sum(-1),
       randn(3, 1495)),
    op("sum/of_5000", torch.sum, randn(2, 5000), dim=-1),
    op("var/of_5000", torch.var, randn(2, 5000), dim=-1),
    op("sum/of_columns", torch.sum, randn(1500, 3), dim=0),
    op("softmax/of_1500", torch.softmax, randn(2, 1500), dim=-1),
    op("layer_norm/of_1500", lambda x: torch.nn.functional.layer_norm(x, (1500,)), randn(2, 1500)),
    _lookup(None, None),
    _lookup(0, None),
    _lookup(None, 6),
    _lookup(0, 6),
    targets="metal:fp32",
)  # fmt: skip
