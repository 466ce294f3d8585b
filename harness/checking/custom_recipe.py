"""Change recipes as the user asks: graph passes of their own, modules that stay in float."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from harness.checking import named_objects
from harness.errors import UsageError
from harness.model import registry
from harness.model.recipe import Recipe
from harness.pipeline.quantization.converted_layers import convert_others
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


@dataclass(frozen=True)
class RecipeChanges:
    """Changes of the recipes of a check.

    Attributes:
        passes: make graph passes that run before those of the target.
        keep_float: names of modules that a quantizer leaves in float.
    """

    passes: Sequence[PassFactory] = ()
    keep_float: Sequence[str] = ()

    def change(self, target: Target) -> Recipe | None:
        """Return the target's recipe with these changes.

        None if there are none for it, or if the backend is unavailable and has no recipes.

        Raises:
            UsageError: the target quantizes, and cannot leave modules in float.
        """
        backend = registry.backend(target.backend)
        if target.recipe not in backend.recipes:
            return None
        recipe = registry.recipe(target, backend)
        changed = self._keep_float(target, self._add_passes(recipe))
        return None if changed is recipe else changed

    def _add_passes(self, recipe: Recipe) -> Recipe:
        if not self.passes:
            return recipe
        return replace(
            recipe,
            transform_passes=lambda: [
                *(make() for make in self.passes),
                *recipe.transform_passes(),
            ],
        )

    def _keep_float(self, target: Target, recipe: Recipe) -> Recipe:
        make, keep = recipe.quantizer, recipe.keep_float
        if not self.keep_float:
            return recipe
        if (convert := recipe.quantize_weights) is not None:
            return replace(
                recipe,
                quantize_weights=lambda module: convert_others(module, convert, self.keep_float),
            )
        if make is None:
            return recipe
        if keep is None:
            raise UsageError(f"{target} cannot leave modules in float (--keep-float)")
        return replace(recipe, quantizer=lambda: keep(make(), self.keep_float))


def check_module_names(module: torch.nn.Module, names: Sequence[str]) -> None:
    """Check that a model has modules of these names.

    Raises:
        UsageError: a name is not that of a module.
    """
    known = [name for name, _ in module.named_modules() if name]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3) or known[:8]
            raise UsageError(
                f"the model has no module {name!r}; it has {', '.join(near) or 'none'}"
                f"{'' if len(known) <= len(near) else ', ...'}"
            )
