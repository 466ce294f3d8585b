"""Load the user's graph passes and add them to recipes."""

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

PassFactory = Callable[[], Pass]


def load_pass(spec: str) -> PassFactory:
    """Load the pass that ``FILE.py:NAME`` or ``package.module:NAME`` names.

    Returns:
        A factory that makes the pass for each program.

    Raises:
        UsageError: the name does not exist, its class needs arguments, or it is not a pass.
    """
    return make_pass_factory(named_objects.load_object(spec), spec)


def make_pass_factory(given: Any, name: str = "") -> PassFactory:
    """A factory that makes a pass for each program: a new object of a class, else ``given`` itself.

    Raises:
        UsageError: the class needs arguments, or its objects are not passes.
    """
    name = name or getattr(given, "__name__", type(given).__name__)
    make: PassFactory = given if isinstance(given, type) else lambda: given
    made = named_objects.run_user_code(f"pass {name} cannot be made without arguments", make)
    if not callable(made):
        raise UsageError(
            f"{name} is of type {type(made).__name__}; a pass is called with a GraphModule"
        )
    return make


def add_passes_to_recipe(target: Target, passes: Sequence[PassFactory]) -> Recipe | None:
    """The target's recipe with these passes before its own.

    None if there are no passes, or if the backend is unavailable and has no recipes.
    """
    backend = registry.backend(target.backend)
    if not passes or target.recipe not in backend.recipes:
        return None
    recipe = registry.recipe(target, backend)

    def transform_passes() -> list[Any]:
        return [*(make() for make in passes), *recipe.transform_passes()]

    return replace(recipe, transform_passes=transform_passes)
