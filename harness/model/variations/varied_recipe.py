"""A recipe with what a target changes in it: graph passes and settings.

``xnnpack:fp32+lift`` adds a pass, ``mlx:fp32-cse`` leaves one out, ``xnnpack:fp32+strict`` has a
setting. Settings apply in the order of the target, after the passes.
"""

from __future__ import annotations

from dataclasses import replace

from harness.errors import UnknownTarget
from harness.model.backend import Backend, OffersSettings
from harness.model.recipe import Recipe
from harness.model.variations.general_settings import GENERAL_SETTINGS
from harness.model.variations.passes import apply_passes, list_known_passes, require_known
from harness.model.variations.setting import Setting
from harness.record.target import Target


def list_settings(backend: Backend) -> dict[str, Setting]:
    """Return the settings that a backend's targets can name."""
    own = backend.settings if isinstance(backend, OffersSettings) else {}
    return {**GENERAL_SETTINGS, **own}


def vary_recipe(recipe: Recipe, target: Target, backend: Backend) -> Recipe:
    """Return the recipe of a target: with its passes, and with its settings.

    Raises:
        UnknownTarget: a pass or a setting does not exist, the recipe cannot have a setting, or two
            settings are values of one choice.
    """
    if not target.passes:
        return recipe
    settings = list_settings(backend)
    named = [each[1:] for each in target.passes if each[0] == "+" and each[1:] in settings]
    passes = tuple(each for each in target.passes if each[1:] not in named or each[0] == "-")
    known = [*settings, *list_known_passes(backend)]
    for each in passes:
        if each[0] == "+":
            problem = f"there is no pass or setting {each[1:]!r} to add to {target.base}"
            require_known(each[1:], known, problem)
    varied = apply_passes(recipe, replace(target, passes=passes), backend)
    chosen: dict[str, str] = {}
    for name in named:
        setting = settings[name]
        if (other := chosen.setdefault(setting.choice, name)) != name:
            raise UnknownTarget(
                f"{target} has two settings of one choice ({setting.choice}): {other} and {name}; "
                "name one of them"
            )
        if (reason := setting.find_refusal(recipe)) is not None:
            raise UnknownTarget(f"{target.base} cannot have the setting {name!r}: {reason}")
        varied = setting.apply(varied)
    return replace(varied, name=target.recipe + "".join(target.passes))
