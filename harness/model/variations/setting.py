"""Settings of lowering that a target can name: ``xnnpack:fp32+strict``.

Where upstream offers a choice, a recipe has one value of it and a setting another: export mode,
edge configuration, partitioner, quantizer, memory planning, emission. A cell with settings is
judged like any other. In addition, a setting verifies that it took effect.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness.model.recipe import Lowered, Recipe, Script

if TYPE_CHECKING:
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig


def _suits_all(recipe: Recipe) -> str | None:
    return None


@dataclass(frozen=True)
class Setting:
    """A setting that a target can name.

    Attributes:
        about: its effect, in a few words.
        choice: the choice that it is a value of. A target has one setting of a choice at most.
        change: returns the recipe with the setting.
        find_refusal: returns why a recipe cannot have it, or None.
        verify: returns a problem if the lowered program shows that the setting had no effect, or
            None. A problem fails the cell at stage ``lower``.
    """

    about: str
    choice: str
    change: Callable[[Recipe], Recipe]
    find_refusal: Callable[[Recipe], str | None] = _suits_all
    verify: Callable[[Lowered], str | None] | None = None

    def apply(self, recipe: Recipe) -> Recipe:
        """Return the recipe with the setting, and with its verification."""
        changed = self.change(recipe)
        if self.verify is None:
            return changed
        return replace(changed, verify=_verify_both(recipe.verify, self.verify))


def _verify_both(
    first: Callable[[Lowered], str | None] | None, second: Callable[[Lowered], str | None]
) -> Callable[[Lowered], str | None]:
    def verify(lowered: Lowered) -> str | None:
        return (first(lowered) if first is not None else None) or second(lowered)

    return verify


def replace_script(recipe: Recipe, change: Callable[[Script], Script | None]) -> Script | None:
    """Return a recipe's script after a change; None if it has none, or if the change makes none."""
    return None if recipe.script is None else change(recipe.script)


def change_edge_config(recipe: Recipe, make: Callable[[], dict[str, Any]], source: str) -> Recipe:
    """Return a recipe with other fields of its edge configuration.

    Args:
        recipe: the recipe.
        make: makes the fields and their values.
        source: the same as keyword arguments in Python source.
    """

    def edge_config() -> EdgeCompileConfig:
        return replace(recipe.edge_config(), **make())

    def change(script: Script) -> Script:
        return replace(script, edge_config=f"dataclasses.replace({script.edge_config}, {source})")

    return replace(recipe, edge_config=edge_config, script=replace_script(recipe, change))


def make_quantizer_setting(
    about: str,
    change: Callable[[Any], Any],
    find_refusal: Callable[[Recipe], str | None] = _suits_all,
    *,
    qat: bool = False,
) -> Setting:
    """Return a setting that configures a recipe's PT2E quantizer further.

    Args:
        about: its effect, in a few words.
        change: takes the quantizer and returns it. Its source becomes a part of scripts, so it uses
            no global names but modules of the standard library.
        find_refusal: returns why a recipe with a quantizer cannot have it, or None.
        qat: prepare the program for training, with ``prepare_qat_pt2e``.
    """

    def find_any_refusal(recipe: Recipe) -> str | None:
        return "it has no quantizer" if recipe.quantizer is None else find_refusal(recipe)

    def rewrite(script: Script) -> Script:
        return replace(
            script,
            preamble=f"{script.preamble}\n\n{inspect.getsource(change)}".lstrip(),
            quantizer=f"{change.__name__}({script.quantizer})",
            qat=qat,
        )

    def change_recipe(recipe: Recipe) -> Recipe:
        make = recipe.quantizer
        assert make is not None
        return replace(
            recipe,
            quantizer=lambda: change(make()),
            qat=qat,
            script=replace_script(recipe, rewrite),
        )

    return Setting(about, "quantizer", change_recipe, find_any_refusal)


_EMISSION = "from executorch.exir import ExecutorchBackendConfig"
_DEFAULT = "ExecutorchBackendConfig()"


def change_emission(
    recipe: Recipe, make: Callable[[], dict[str, Any]], source: str, *imports: str
) -> Recipe:
    """Return a recipe with other fields of ``ExecutorchBackendConfig``.

    Args:
        recipe: the recipe.
        make: makes the fields and their values.
        source: the same as keyword arguments in Python source.
        imports: import statements that the source needs.
    """

    def backend_config() -> ExecutorchBackendConfig:
        return replace(recipe.backend_config(), **make())

    def change(script: Script) -> Script | None:
        if script.run:  # it does not emit a program
            return None
        return replace(
            script,
            imports=(*script.imports, _EMISSION, *imports),
            backend_config=f"dataclasses.replace({script.backend_config or _DEFAULT}, {source})",
        )

    script = replace_script(recipe, change)
    return replace(recipe, backend_config=backend_config, script=script)
