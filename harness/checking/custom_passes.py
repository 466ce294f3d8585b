"""Graph passes of somebody else's, made anew for every program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from harness.checking import named_objects
from harness.errors import UsageError
from harness.model import registry
from harness.model.recipe import Recipe
from harness.pipeline.stages import Pass
from harness.record.target import Target

MakePass = Callable[[], Pass]


def load(spec: str) -> MakePass:
    """What makes the pass that ``FILE.py:NAME`` or ``package.module:NAME`` names.

    Raises:
        UsageError: there is no such thing, it cannot be made without arguments, or is no pass.
    """
    return maker(named_objects.find(spec), spec)


def maker(given: Any, name: str = "") -> MakePass:
    """What makes a pass for each program: a class is made anew, anything else is used as it is.

    Raises:
        UsageError: the class cannot be made without arguments, or what comes of it is no pass.
    """
    name = name or getattr(given, "__name__", type(given).__name__)
    make: MakePass = given if isinstance(given, type) else lambda: given
    made = named_objects.guarded(f"pass {name} cannot be made without arguments", make)
    if not callable(made):
        raise UsageError(
            f"{name} is of type {type(made).__name__}; a pass is called with a GraphModule"
        )
    return make


def recipe_with(target: Target, passes: Sequence[MakePass]) -> Recipe | None:
    """The recipe of a target that runs these passes before its own; None without any, or where the
    backend, being unavailable, has no recipe."""
    backend = registry.backend(target.backend)
    if not passes or target.recipe not in backend.recipes:
        return None
    recipe = registry.recipe(target, backend)

    def transform_passes() -> list[Any]:
        return [*(make() for make in passes), *recipe.transform_passes()]

    return replace(recipe, transform_passes=transform_passes)
