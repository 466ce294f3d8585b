"""Make one case of each row of a pairwise covering array."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from harness import Case
from harness.model.registry import NIGHTLY
from harness.model.variations.covering import cover_pairs
from suites.build import COARSE, DTYPE_TAGS

PLAIN_SHARE = 72
"""A plain run has one of this many cases of a family."""
FLOAT_TARGETS = "xnnpack:fp32|tosa:fp|mlx:fp32|metal:fp32"
DYNAMIC_TARGETS = "xnnpack:fp32|mlx:fp32|metal:fp32"

Row = dict[str, Any]
Allows = Callable[[Row], bool]


def find_rows(factors: Mapping[str, Sequence[Any]], allows: Allows) -> list[Row]:
    """Return rows in which every pair of values occurs that a valid row has.

    Args:
        factors: the values of each property, by its name.
        allows: whether a row is valid; it gets the values that are chosen so far.
    """
    names = list(factors)
    rows = cover_pairs(
        list(factors.values()), lambda chosen: allows(dict(zip(names, chosen, strict=False)))
    )
    return [dict(zip(names, row, strict=True)) for row in rows]


def cross(
    family: str,
    factors: Mapping[str, Sequence[Any]],
    allows: Allows,
    make: Callable[[str, Row], Case],
    integer_targets: str = "xnnpack:int8|tosa:int",
    further: Sequence[Row] = (),
) -> list[Case]:
    """Return a case of each row: ``crossing_FAMILY/VALUE_VALUE_...``.

    Args:
        family: the operator or operators.
        factors: the values of each property, by its name; the values together name the case. A
            property ``dtype`` tags the case and decides which targets it suits.
        allows: whether a row is valid; it gets the values that are chosen so far.
        make: makes a case of a name and a row.
        integer_targets: globs over the targets that quantize, separated by ``|``, or empty; only
            cases with a float dtype have them.
        further: rows that matter although their pairs occur in others.
    """
    cases = []
    for place, row in enumerate([*find_rows(factors, allows), *further]):
        case = make(f"crossing_{family}/{'_'.join(map(str, row.values()))}", row)
        dtype = row.get("dtype", "float32")
        tags = case.tags | {"ops", "crossing", DTYPE_TAGS[getattr(torch, dtype)]}
        tags |= {NIGHTLY} if place % PLAIN_SHARE else set()
        tags |= {"empty"} if row.get("inputs") == "empty" else set()
        targets = [DYNAMIC_TARGETS if row.get("size") == "dynamic" else FLOAT_TARGETS]
        targets += [integer_targets] if integer_targets and dtype.startswith("float") else []
        vacuous = COARSE if row.get("operator") in ("eq", "any") else ""
        cases.append(replace(case, tags=tags, targets="|".join(targets), vacuous=vacuous))
    return cases


def match_rows(family: str, *values: str) -> str:
    """Return globs over the cases of a family, for limitations.

    Args:
        family: the family.
        values: of each property, globs over its values, separated by spaces. One ``*`` stands for
            any number of properties.
    """
    parts = itertools.product(*(each.split() for each in values))
    return "|".join(f"crossing_{family}/{'_'.join(part)}" for part in parts)


def prepare_input(values: torch.Tensor, layout: str) -> torch.Tensor:
    """Return the input from which :func:`apply_layout` makes these values.

    Args:
        values: a contiguous tensor.
        layout: ``contiguous``, ``channelslast`` (rank 4 alone), ``transposed`` (the program swaps
            the first and the last dimension) or ``sliced`` (it takes every other element).
    """
    if layout == "channelslast":
        return values.to(memory_format=torch.channels_last)
    if layout == "transposed" and values.dim() > 1:
        return values.transpose(0, -1).clone(memory_format=torch.contiguous_format)
    if layout == "sliced" and values.dim():
        return values.repeat_interleave(2, -1)
    return values


def apply_layout(x: torch.Tensor, layout: str) -> torch.Tensor:
    """Return the values of an input of a program, as a view."""
    if layout == "transposed" and x.dim() > 1:
        return x.transpose(0, -1)
    return x[..., ::2] if layout == "sliced" and x.dim() else x


class Arranged(torch.nn.Module):
    """A layer behind the view of its input."""

    def __init__(self, layer: torch.nn.Module, layout: str) -> None:
        super().__init__()
        self.layer = layer
        self.layout = layout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's result."""
        return self.layer(apply_layout(x, self.layout))
