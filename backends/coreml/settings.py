"""Settings of CoreML's converter and partitioner that a target can name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from backends.coreml.recipes import ConverterOptions
from harness.backend_api import Recipe, Setting


def _change(recipe: Recipe, **changes: Any) -> Recipe:
    """Return the recipe with other options of the converter."""
    assert isinstance(recipe.partitioners, ConverterOptions), "all recipes of CoreML have them"
    options = replace(recipe.partitioners, **changes)
    script = recipe.script and replace(recipe.script, partitioners=options.source)
    return replace(recipe, partitioners=options, script=script)


def _use_ios_17(recipe: Recipe) -> Recipe:
    # Systems before iOS 18 have no states.
    return _change(recipe, target="iOS17", takes_buffers=False)


def _keep_buffers(recipe: Recipe) -> Recipe:
    return _change(recipe, takes_buffers=False)


def _find_compressed(recipe: Recipe) -> str | None:
    if recipe.quantize_weights is None:
        return None
    return "compressed weights in blocks need iOS 18"


SETTINGS: Mapping[str, Setting] = {
    "ios17": Setting(
        "converts for iOS 17 (minimum_deployment_target), whose operations are older",
        "converter",
        _use_ios_17,
        _find_compressed,
    ),
    "own_buffers": Setting(
        "leaves mutable buffers to the runtime (take_over_mutable_buffer=False)",
        "partitioner",
        _keep_buffers,
    ),
}
