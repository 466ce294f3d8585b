"""Parse target lists: ``xnnpack:fp32``, ``xnnpack``, ``xnnpack:*``, ``*:fp32``, ``default``,
``nightly``, ``all``, separated by commas."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from harness.errors import UnknownTarget
from harness.model import registry
from harness.model.backend import MissingBackend
from harness.record.target import PASS_CHANGES, Target

_PATTERN = re.compile(rf"([a-z0-9_*?]+):([a-z0-9_*?]+)({PASS_CHANGES})")

_OURS = "null"
"""The backend of the harness' own tests; ``all`` excludes it."""


def _all() -> list[Target]:
    return [target for target in registry.known_targets() if target.backend != _OURS]


def _nightly() -> list[Target]:
    return [*registry.default_targets(), *registry.nightly_targets()]


WORDS: Mapping[str, Callable[[], Sequence[Target]]] = {
    "default": registry.default_targets,
    "nightly": _nightly,
    "all": _all,
}
"""Words that name several targets: of a plain run, of a nightly run, of every backend."""


def parse_list(text: str, option: str) -> list[Target]:
    """Parse the target list of an option; spaces around commas are ignored.

    Args:
        text: the list.
        option: the option, for messages.

    Raises:
        UnknownTarget: a name between the commas is empty, or as :func:`parse_targets`.
    """
    names = [item.strip() for item in text.split(",")]
    if not all(names):
        raise UnknownTarget(
            f"{option} has an empty name in {text!r}; separate target names with single commas"
        )
    return parse_targets(names)


def parse_targets(texts: Sequence[str]) -> list[Target]:
    """Parse targets and check that each exists.

    Raises:
        UnknownTarget: a text is malformed or matches no target, or a backend has no recipes, for
            example because it cannot be imported.
    """
    return list(dict.fromkeys(target for text in texts for target in _expand(text)))


def _expand(text: str) -> Sequence[Target]:
    if text in WORDS:
        return WORDS[text]()
    if ":" not in text:
        return _list_targets_of(text)
    if "*" in text or "?" in text:
        return _match_glob(text)
    target = Target.parse(text)
    if not isinstance(registry.backend(target.backend), MissingBackend):
        registry.recipe(target)
    return [target]


def _list_targets_of(name: str) -> list[Target]:
    """Return the targets of a backend, by its name."""
    if name not in registry.names():
        if any(target.recipe == name for target in registry.known_targets()):
            raise UnknownTarget(
                f"{name!r} is a recipe; targets are spelled backend:recipe, and *:{name} selects "
                "it on every backend that has it"
            )
        near = difflib.get_close_matches(name, [*registry.names(), *WORDS], n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {_list_names()}"
        raise UnknownTarget(f"unknown target {name!r}; targets are spelled backend:recipe; {hint}")
    built_in = registry.BUILT_IN.get(name)
    recipes = (built_in and built_in.recipes) or tuple(registry.backend(name).recipes)
    if not recipes:
        reason = registry.backend(name).availability().reason or "it declares none"
        raise UnknownTarget(f"backend {name!r} has no recipes: {reason}")
    return [Target(name, recipe) for recipe in recipes]


def _match_glob(text: str) -> list[Target]:
    """Return the targets that a glob matches, each with the pass changes that follow the glob."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise UnknownTarget(
            f"{text!r} is not a pattern of targets; examples are xnnpack:* and *:fp32"
        )
    wanted, recipe, changes = match.groups()
    here = [one for one in registry.known_targets() if fnmatchcase(one.backend, wanted)]
    if not here:
        near = difflib.get_close_matches(wanted, registry.names(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {_list_names()}"
        raise UnknownTarget(f"{text!r}: no backend matches {wanted!r}; {hint}")
    found = [one for one in here if fnmatchcase(one.recipe, recipe)]
    if not found:
        recipes = list(dict.fromkeys(one.recipe for one in here))
        near = difflib.get_close_matches(recipe, recipes, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(recipes)}"
        raise UnknownTarget(f"{text!r}: no recipe matches {recipe!r}; {hint}")
    if not changes:
        return found
    return [target for one in found for target in _expand(f"{one}{changes}")]


def _list_names() -> str:
    return ", ".join([*registry.names(), *WORDS])
