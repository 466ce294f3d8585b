"""Settings of the Cortex-M backend that a target can name."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from backends.cortex_m.recipes import CPUS, make_passes, make_quantizer, make_script
from harness.backend_api import Recipe, Setting


def _use_explicit_layout(recipe: Recipe) -> Recipe:
    cpu = CPUS[recipe.name.partition("+")[0]]

    def transform_passes() -> list[Any]:
        *added, _ = recipe.transform_passes()  # the last one is the recipe's own
        return [*added, *make_passes(cpu, explicit_layout=True)]

    return replace(
        recipe,
        channels_last=False,
        quantizer=functools.partial(make_quantizer, explicit_layout=True),
        transform_passes=transform_passes,
        script=make_script(cpu, explicit_layout=True),
    )


SETTINGS: Mapping[str, Setting] = {
    "explicit_layout": Setting(
        "takes contiguous inputs and makes transpositions explicit (use_explicit_layout=True)",
        "layout",
        _use_explicit_layout,
    )
}
