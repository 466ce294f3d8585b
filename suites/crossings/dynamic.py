"""Operators on tensors with dynamic sizes: which dimensions and sizes, and what reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from harness import Case
from suites.crossings.build import DYNAMIC_TARGETS, Row, cross

_SHAPE = (4, 6, 8)
_DIMS = {"first": (0,), "middle": (1,), "last": (2,), "two": (0, 1)}

OPERATORS: dict[str, tuple[str, Callable[[Tensor, dict[str, Tensor]], Tensor]]] = {
    "linear": ("last", lambda x, p: F.linear(x, p["rows"])),
    "conv": ("middle", lambda x, p: F.conv1d(x, p["kernel"], padding=1)),
    "deconv": ("middle", lambda x, p: F.conv_transpose1d(x, p["transposed"], stride=2)),
    "avgpool": ("", lambda x, p: F.avg_pool1d(x, 2)),
    "maxpool": ("last", lambda x, p: F.max_pool1d(x, 3, stride=2, padding=1)),
    "layernorm": ("last", lambda x, p: F.layer_norm(x, (8,))),
    "softmax": ("", lambda x, p: x.softmax(-1)),
    "mean": ("", lambda x, p: x.mean(1, keepdim=True)),
    "var": ("", lambda x, p: x.var(2)),
    "amax": ("", lambda x, p: x.amax((0, 1))),
    "cumsum": ("", lambda x, p: x.cumsum(1)),
    "matmul": ("", lambda x, p: x @ x.transpose(1, 2)),
    "attention": ("", lambda x, p: F.scaled_dot_product_attention(x, x, x)),
    "flatten": ("", lambda x, p: x.flatten(1)),
    "merge": ("", lambda x, p: x.reshape(x.shape[0] * x.shape[1], x.shape[2])),
    "heads": ("last", lambda x, p: x.reshape(x.shape[0], x.shape[1], 2, 4).transpose(1, 2)),
    "permute": ("", lambda x, p: x.permute(2, 0, 1)),
    "cat": ("", lambda x, p: torch.cat([x, x * 2], 1)),
    "catrow": ("middle last", lambda x, p: torch.cat([p["head"], x])),
    "slice": ("", lambda x, p: x[:, 1:, :-1]),
    "half": ("", lambda x, p: x[:, : x.shape[1] // 2]),
    "flip": ("", lambda x, p: x.flip(1)),
    "roll": ("", lambda x, p: x.roll(1, 2)),
    "repeat": ("", lambda x, p: x.repeat(1, 2, 1)),
    "expand": ("", lambda x, p: p["head"][:, :1, :1].expand(x.shape) + x),
    "pad": ("", lambda x, p: F.pad(x, (1, 2, 0, 1))),
    "reflect": ("", lambda x, p: F.pad(x, (1, 2), mode="reflect")),
    "interpolate": ("", lambda x, p: F.interpolate(x, scale_factor=2.0)),
    "index": ("", lambda x, p: x[:, p["index"]]),
    "positions": ("", lambda x, p: x + torch.arange(x.shape[1]).unsqueeze(-1)),
    "mask": ("", lambda x, p: x.masked_fill(torch.ones(x.shape[1:]).tril() == 0, -1.0)),
    "size": ("", lambda x, p: x * (x.shape[1] + 1)),
}
"""By name: the dimensions that cannot be dynamic, and the operator of an input of shape (4, 6, 8)
and parameters."""
FACTORS = {
    "operator": tuple(OPERATORS),
    "dim": tuple(_DIMS),
    "sizes": ("range", "fromone", "even"),
    "then": ("alone", "relu", "again"),
}
_NEED_TWO = ("avgpool", "slice", "half", "reflect", "index", "var")


def allows(row: Row) -> bool:
    """Whether the row is valid: parameters have fixed sizes, and some operators need two or more
    elements."""
    fixed = OPERATORS[row["operator"]][0].split()
    changed = ("first", "middle") if row.get("dim") == "two" else (row.get("dim"),)
    return not (
        any(each in fixed for each in changed)
        or (row.get("sizes") == "fromone" and row["operator"] in _NEED_TWO)
        or (row.get("sizes") in ("range", "fromone") and _halves(row))
    )


def _halves(row: Row) -> bool:
    """Whether a dynamic size is divided: torch.export asks for one that is even."""
    divided = {"avgpool": "last", "half": "middle two"}.get(row["operator"], "")
    return row.get("dim") in divided.split()


class Dynamic(nn.Module):
    """Applies the operator of a row."""

    def __init__(self, row: Row) -> None:
        super().__init__()
        self.row = row
        self.register_buffer("rows", torch.randn(5, 8))
        self.register_buffer("kernel", torch.randn(5, 6, 3))
        self.register_buffer("transposed", torch.randn(6, 5, 3))
        self.register_buffer("head", torch.randn(1, 6, 8))
        self.register_buffer("index", torch.tensor([1, 0]))

    def forward(self, x: Tensor) -> Tensor:
        """Return the result."""
        apply, state = OPERATORS[self.row["operator"]][1], dict(self.named_buffers())
        y = apply(x, state)
        if self.row["then"] == "relu":
            return y.relu()
        return y + apply(x * 2 + 1, state) if self.row["then"] == "again" else y


def _make_case(name: str, row: Row) -> Case:
    def build() -> tuple[nn.Module, tuple[Tensor, ...]]:
        return Dynamic(row), (torch.randn(_SHAPE),)

    def make_dim(place: int) -> Any:
        if row["sizes"] == "even":
            return 2 * Dim(f"half{place}", min=2, max=6)
        return Dim(f"size{place}", min=1 if row["sizes"] == "fromone" else 3, max=12)

    return Case(name, build, dynamic_shapes=({at: make_dim(at) for at in _DIMS[row["dim"]]},))


CASES: list[Case] = [
    replace(case, targets=DYNAMIC_TARGETS + "|portable:fp32")
    for case in cross("dynamic", FACTORS, allows, _make_case, integer_targets="")
]
