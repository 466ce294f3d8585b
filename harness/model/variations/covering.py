"""Sets of settings in which every pair of values of two choices occurs (a covering array)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.errors import UnknownTarget
from harness.model import registry
from harness.model.variations.varied_recipe import list_settings
from harness.record.target import Target


def list_choices(target: Target) -> dict[str, list[str]]:
    """Return the choices that a target has, and the settings of each that it can have.

    Raises:
        UnknownTarget: the backend or the recipe does not exist.
    """
    backend = registry.backend(target.backend)
    recipe = registry.recipe(target.base, backend)
    found: dict[str, list[str]] = {}
    for name, setting in list_settings(backend).items():
        if setting.find_refusal(recipe) is None:
            found.setdefault(setting.choice, []).append(name)
    return found


def cover_pairs(factors: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return rows with one value of each factor, so that every pair of values occurs in a row.

    Args:
        factors: the values of each factor; the same factors give the same rows.
    """
    from allpairspy import AllPairs

    if len(factors) < 2:
        return [[value] for factor in factors for value in factor]
    return [list(row) for row in AllPairs([list(values) for values in factors])]


def vary_target(target: Target) -> list[Target]:
    """Return the target with settings so that every pair of settings occurs in one of them.

    Raises:
        UnknownTarget: the backend or the recipe does not exist.
    """
    factors = [["", *names] for names in list_choices(target).values()]
    rows = ([name for name in row if name] for row in cover_pairs(factors))
    return [add_settings(target, row) for row in rows if row]


def add_settings(target: Target, names: Sequence[str]) -> Target:
    """Return a target with settings behind what it names already."""
    passes = (*target.passes, *(f"+{name}" for name in names))
    return Target(target.backend, target.recipe, passes)


def vary_targets(targets: Sequence[Target], settings: str) -> list[Target]:
    """Return targets, each followed by its variations.

    Args:
        targets: the targets.
        settings: names separated by commas, each alone makes a variation; ``all`` for
            :func:`vary_target`; empty for none.

    Raises:
        UnknownTarget: there is no such setting, or no target can have it.
    """
    if not settings:
        return list(targets)
    if settings == "all":
        return [each for target in targets for each in (target, *vary_target(target))]
    names = [name.strip() for name in settings.split(",")]
    possible = {
        target: {name for group in list_choices(target).values() for name in group}
        for target in targets
    }
    for name in names:
        if not any(name in each for each in possible.values()):
            known = sorted(set().union(*possible.values()))
            raise UnknownTarget(
                f"no target can have a setting {name!r}; they can have: {', '.join(known)}, or all"
            )
    return [
        each
        for target in targets
        for each in (
            target,
            *(add_settings(target, [name]) for name in names if name in possible[target]),
        )
    ]
