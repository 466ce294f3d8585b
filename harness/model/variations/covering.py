"""Sets of settings in which every pair of values of two choices occurs (a covering array)."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
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
        with contextlib.suppress(ImportError):  # A partitioner of a package that is not installed.
            if setting.find_refusal(recipe) is None:
                found.setdefault(setting.choice, []).append(name)
    return found


def cover_pairs(
    factors: Sequence[Sequence[Any]], allows: Callable[[Sequence[Any]], bool] | None = None
) -> list[list[Any]]:
    """Return rows with one value of each factor, so that every pair of values occurs in a row.

    Args:
        factors: the values of each factor; the same factors give the same rows.
        allows: whether a row is valid. It is also asked about the first values of a row, and must
            then refuse only if no row begins with them. Pairs that no valid row has are left out.
    """
    from allpairspy import AllPairs

    if len(factors) < 2:
        rows = [[value] for factor in factors for value in factor]
        return [row for row in rows if allows is None or allows(row)]
    choices = [list(values) for values in factors]
    if allows is None:
        return [list(row) for row in AllPairs(choices)]
    found = [list(row) for row in AllPairs(choices, filter_func=allows)]
    # With a filter, allpairspy 2.5.1 ends while pairs of valid rows are untried.
    for first, second in itertools.combinations(range(len(choices)), 2):
        for pair in itertools.product(choices[first], choices[second]):
            if not any((row[first], row[second]) == pair for row in found):
                fixed = {first: [pair[0]], second: [pair[1]]}
                rest = [fixed.get(place, values) for place, values in enumerate(choices)]
                row = next((row for row in itertools.product(*rest) if allows(row)), None)
                found += [] if row is None else [list(row)]
    return found


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
