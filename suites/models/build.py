"""Write a model case: an architecture, the inputs of each call, and its targets.

::

    model("deit/tiny", deit, pictures(64), pictures(64), plain_targets="xnnpack:*")

There are two scales. ``tiny`` models have few layers, a small width and a small vocabulary. They
keep the published shapes that kernels depend on: head dimensions of 64, inner dimensions that are
multiples of 32, strides and kernel sizes. ``real`` models have published shapes and run nightly;
models that would not fit are split into layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from harness import Case, Inputs

VOCABULARY = 256

FLOAT = "portable:fp32|xnnpack:fp32|tosa:fp|mlx:fp32|metal:fp32|coreml:fp32|openvino:fp32"
USUAL = f"{FLOAT}|xnnpack:int8|tosa:int|mlx:int4|metal:int4"
"""Targets of every architecture."""
PICTURES = f"{FLOAT}|xnnpack:int8|tosa:int|mlx:int4"
"""Targets of models that begin with a convolution, which Metal supports in no recipe."""
FURTHER = "xnnpack:int8_dynamic|tosa:mxfp8_e4m3|mlx:bf16|metal:bf16"
"""Targets of one architecture of each kind; the others run nightly on them (``night.py``)."""
EVERY = f"{USUAL}|{FURTHER}"
DYNAMIC = "portable:fp32|xnnpack:fp32|mlx:fp32|metal:fp32"
"""Targets that support dynamic dimensions."""

Make = Callable[[], Inputs]


class Field(torch.nn.Module):
    """Calls a model with one input and returns one field of its output (of a tuple, the last)."""

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
    """Like :class:`Field`, with an attention mask as second input."""

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
    """Make a case of the tiny scale.

    Args:
        name: ``architecture/variant``.
        module: makes the module, with weights from :func:`suites.models.weights.init_weights`.
        calls: each makes the inputs of one call; at least one.
        dynamic: ``dynamic_shapes`` of ``torch.export.export``.
        plain_targets: globs over targets that a plain run selects; ``-m model`` selects all.
        targets: globs over all targets of the case.
        tags: further tags beside ``model``.
        memory: GiB that a cell may use; 0 for the default.
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
