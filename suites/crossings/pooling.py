"""Pooling: rank, kernel, stride, padding, dilation, rounding of sizes, and layout."""

from __future__ import annotations

import torch
from torch import nn

from harness import Case
from suites.crossings.build import Arranged, Row, cross, prepare_input

FACTORS = {
    "kind": ("max", "avg", "adaptive"),
    "rank": ("1d", "2d", "3d"),
    "kernel": ("odd", "even", "uneven"),
    "stride": ("default", "stride1", "stride2"),
    "padding": ("pad0", "pad1"),
    "ceil": ("floor", "ceil"),
    "dilation": ("dilation1", "dilation2"),
    "counted": ("counted", "uncounted"),
    "batch": ("batch", "unbatched"),
    "layout": ("contiguous", "channelslast", "transposed"),
}
_SIZES = {"1d": (9,), "2d": (7, 8), "3d": (6, 5, 7)}
_KERNELS = {"odd": (3, 3, 3), "even": (2, 2, 2), "uneven": (3, 2, 3)}
_FIRST = {"stride": "default", "padding": "pad0", "ceil": "floor", "dilation": "dilation1"}


def allows(row: Row) -> bool:
    """Whether torch has the pooling, and the row names no property that it lacks."""
    adaptive = row["kind"] == "adaptive"
    return not (
        (adaptive and any(row.get(name, value) != value for name, value in _FIRST.items()))
        or (row["kind"] != "avg" and row.get("counted") == "uncounted")
        or (row["kind"] == "avg" and row.get("dilation") == "dilation2")
        or (
            row.get("layout") == "channelslast"
            and (row["rank"] != "2d" or row.get("batch") == "unbatched")
        )
    )


def make_module(row: Row) -> nn.Module:
    """Return the layer."""
    rank, kind = int(row["rank"][0]), row["kind"]
    kernel = _KERNELS[row["kernel"]][:rank]
    if kind == "adaptive":
        return getattr(nn, f"AdaptiveAvgPool{rank}d")(kernel)
    options = {"stride": {"default": None, "stride1": 1, "stride2": 2}[row["stride"]]}
    options |= {"padding": int(row["padding"][-1]), "ceil_mode": row["ceil"] == "ceil"}
    if kind == "max":
        return getattr(nn, f"MaxPool{rank}d")(kernel, dilation=int(row["dilation"][-1]), **options)
    counted = row["counted"] == "counted"
    return getattr(nn, f"AvgPool{rank}d")(kernel, count_include_pad=counted, **options)


def _make_case(name: str, row: Row) -> Case:
    def build() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        batch = (2,) if row["batch"] == "batch" else ()
        x = torch.randn(*batch, 4, *_SIZES[row["rank"]])
        return Arranged(make_module(row), row["layout"]), (prepare_input(x, row["layout"]),)

    return Case(name, build)


CASES: list[Case] = cross("pool", FACTORS, allows, _make_case)
