"""Convolutions: rank, groups, padding, kernel, stride, dilation, bias and layout."""

from __future__ import annotations

import torch
from torch import nn

from harness import Case
from suites.crossings.build import Arranged, Row, cross, prepare_input

FACTORS = {
    "rank": ("1d", "2d", "3d"),
    "groups": ("dense", "grouped", "depthwise"),
    "padding": ("same", "valid", "number", "reflect"),
    "kernel": ("odd", "even"),
    "stride": ("stride1", "stride2"),
    "dilation": ("dilation1", "dilation2"),
    "direction": ("conv", "deconv"),
    "bias": ("bias", "nobias"),
    "layout": ("contiguous", "channelslast", "transposed"),
    "then": ("alone", "relu", "relu6"),
}
_CHANNELS = 4


def allows(row: Row) -> bool:
    """Whether torch has the convolution."""
    padding, transposed = row.get("padding"), row.get("direction") == "deconv"
    return not (
        (padding == "same" and row.get("stride") == "stride2")
        or (transposed and padding in ("same", "reflect"))
        or (row["rank"] != "2d" and row.get("layout") == "channelslast")
    )


def make_module(row: Row) -> nn.Module:
    """Return the convolution, followed by its activation."""
    rank = int(row["rank"][0])
    transposed = row["direction"] == "deconv"
    kind = getattr(nn, f"Conv{'Transpose' if transposed else ''}{rank}d")
    padding = {"same": "same", "valid": 0 if transposed else "valid"}.get(row["padding"], 1)
    layer = kind(
        _CHANNELS,
        _CHANNELS if row["groups"] == "depthwise" else 6,
        3 if row["kernel"] == "odd" else 2,
        stride=int(row["stride"][-1]),
        padding=padding,
        dilation=int(row["dilation"][-1]),
        groups={"dense": 1, "grouped": 2, "depthwise": _CHANNELS}[row["groups"]],
        bias=row["bias"] == "bias",
        padding_mode="reflect" if row["padding"] == "reflect" else "zeros",
    )
    then = {"alone": (), "relu": (nn.ReLU(),), "relu6": (nn.ReLU6(),)}[row["then"]]
    return nn.Sequential(layer, *then) if then else layer


def _make_case(name: str, row: Row) -> Case:
    sizes = {"1d": (9,), "2d": (7, 8), "3d": (6, 5, 7)}[row["rank"]]

    def build() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        x = torch.randn(2, _CHANNELS, *sizes)
        return Arranged(make_module(row), row["layout"]), (prepare_input(x, row["layout"]),)

    return Case(name, build)


CASES: list[Case] = cross("conv", FACTORS, allows, _make_case)
