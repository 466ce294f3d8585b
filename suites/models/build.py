"""Write a model case: an architecture, its inputs call by call, and where it runs.

::

    model("deit/tiny", deit, pictures(64), pictures(64), plain_targets="xnnpack:*")

Two scales. ``tiny`` is small in layers, width and vocabulary, and shaped as the published ones in
what kernels ask for: head dimensions of 64, inner dimensions that are multiples of 32, strides and
kernel sizes. ``real`` has published shapes, layer by layer where the whole would not fit, at night.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from harness import Case, Inputs

VOCABULARY = 256

FLOAT = "portable:fp32|xnnpack:fp32|tosa:fp|mlx:fp32|metal:fp32"
USUAL = f"{FLOAT}|xnnpack:int8|tosa:int|*:int4"
"""The targets that every architecture is taken to."""
PICTURES = f"{FLOAT}|xnnpack:int8|tosa:int|mlx:int4"
"""The same for what begins with a convolution, where Metal stops whatever the recipe."""
FURTHER = "xnnpack:int8_dynamic|tosa:mxfp8_e4m3|*:bf16"
"""Those that one architecture of a kind is taken to; the others are at night (``night.py``)."""
EVERY = f"{USUAL}|{FURTHER}"
DYNAMIC = "portable:fp32|xnnpack:fp32|mlx:fp32|metal:fp32"
"""Those that take sizes which are not known when they lower."""

Make = Callable[[], Inputs]


class Field(torch.nn.Module):
    """A model of one input that returns one tensor of its output record: where that is a tuple,
    its last."""

    def __init__(self, model: torch.nn.Module, field: str, **fixed: Any) -> None:
        super().__init__()
        self.model = model
        self.field = field
        self.fixed = fixed

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        found = getattr(self.model(given, **self.fixed), self.field)
        result: torch.Tensor = found[-1] if isinstance(found, (tuple, list)) else found
        return result


class Masked(Field):
    """The same of an input and a mask over it."""

    def forward(self, given: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = getattr(
            self.model(given, attention_mask=mask, **self.fixed), self.field
        )
        return result


def model(
    name: str,
    module: Callable[[], torch.nn.Module],
    *calls: Make,
    dynamic: Any = None,
    plain_targets: str = "",
    targets: str = USUAL,
    tags: Iterable[str] = (),
    memory: float = 0.0,
) -> Case:
    """A case of the tiny scale.

    Args:
        name: ``architecture/variant``.
        module: makes it, with telling weights.
        calls: each makes the inputs of a call; one or more.
        dynamic: as ``torch.export.export`` takes ``dynamic_shapes``.
        plain_targets: globs over targets that a plain run selects; ``-m model`` selects all.
        targets: globs over those at all.
        tags: words beside ``model``.
        memory: GiB that a cell may hold, where that is much.
    """
    first, *further = calls
    words = {"model", "fp32", *tags, *(["dynamic"] if dynamic is not None else [])}
    return Case(
        name,
        lambda: (module(), first()),
        dynamic_shapes=dynamic,
        calls=(lambda: [one() for one in further]) if further else None,
        tags=frozenset(words),
        targets=targets,
        plain_targets=plain_targets,
        memory=memory,
    )
