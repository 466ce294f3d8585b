"""Target: where and how a case runs, spelled ``backend:recipe`` everywhere.

A recipe can be spelled with a graph pass more or less, or with a setting of lowering:
``xnnpack:fp32+lift``, ``mlx:fp32-cse``, ``xnnpack:fp32+strict``. Several backends in order of
preference lower one program of several delegates: ``metal:fp32/xnnpack:fp32``.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from dataclasses import dataclass

from harness.errors import UnknownTarget

_NAME = "[a-z][a-z0-9_]*"
PASS_CHANGES = rf"(?:[+-]{_NAME})*"
"""Regular expression of the passes behind a recipe."""

SEVERAL = "/"
"""Separates the backends of a target for programs of several delegates."""

# A comma is read as well, where it does not separate targets.
_SPELLING = re.compile(rf"({_NAME}:{_NAME}(?:[{SEVERAL},]{_NAME}:{_NAME})*)({PASS_CHANGES})")

_CHANGE = re.compile(rf"[+-]{_NAME}")

TARGET_LIST_HELP = "xnnpack:fp32,mlx or xnnpack:*, *:fp32, default, nightly, all"
"""Examples of target lists, for ``--help``; :mod:`harness.model.selection` parses them."""

ALL_PASSES = "passes"
"""The name after ``-`` that stands for all of the recipe's own passes."""

_CELL = re.compile(rf"[^\s\[\]@]+@{_SPELLING.pattern}")

VARIED_SUFFIX = " with passes"
"""Suffix of a recipe's target that stands for all its variations by passes."""


@dataclass(frozen=True, order=True)
class Target:
    """A backend and one of its recipes.

    ``str(target)`` and :meth:`parse` are inverse; the same spelling is used on the command
    line, in pytest ids and as the key of reports.

    Attributes:
        backend: its name; the names of several, such as ``metal/xnnpack``, for programs of several
            delegates.
        recipe: name of the recipe as the backend declares it; as many as there are backends.
        passes: what is spelled after it: ``+name`` adds a pass or a setting, ``-name`` leaves one
            of the recipe's own passes out (:mod:`harness.model.variations`).
    """

    backend: str
    recipe: str
    passes: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read ``backend:recipe``.

        Raises:
            UnknownTarget: the text is not spelled that way. Whether the backend and the
                recipe exist is asked of :mod:`harness.model.registry`.
        """
        match = _SPELLING.fullmatch(text.strip())
        if match is None:
            raise UnknownTarget(
                f"target {text!r} is not spelled backend:recipe (for example xnnpack:fp32)"
            )
        spelled, passes = match.groups()
        pairs = [part.split(":") for part in re.split(f"[{SEVERAL},]", spelled)]
        backends, recipes = zip(*pairs, strict=True)
        return cls(SEVERAL.join(backends), SEVERAL.join(recipes), tuple(_CHANGE.findall(passes)))

    def __str__(self) -> str:
        if not self.is_mixed:
            return f"{self.backend}:{self.recipe}{''.join(self.passes)}"
        pairs = zip(self.backend.split(SEVERAL), self.recipe.split(SEVERAL), strict=True)
        spelled = SEVERAL.join(f"{backend}:{recipe}" for backend, recipe in pairs)
        return f"{spelled}{''.join(self.passes)}"

    @property
    def is_mixed(self) -> bool:
        """Whether it names several backends."""
        return SEVERAL in self.backend

    @property
    def base(self) -> Target:
        """The target without added or removed passes."""
        return Target(self.backend, self.recipe) if self.passes else self

    @property
    def family(self) -> str:
        """Its recipe, with a suffix if passes are spelled: one name for all such variations."""
        return f"{self.base}{VARIED_SUFFIX}" if self.passes else str(self)


def cell_id(case: str, target: Target | str) -> str:
    """Return the id of a cell: ``case@backend:recipe``."""
    return f"{case}@{target}"


def suite_file(suite: str) -> str:
    """Return the file of a suite, relative to the folder that has its package.

    Args:
        suite: its dotted name, such as ``suites.ops.unary``.
    """
    return f"{suite.replace('.', '/')}.py"


def matches_any_glob(patterns: str, text: str) -> bool:
    """Return whether one of the globs, separated by ``|``, matches the text."""
    return _compile_globs(patterns).match(text) is not None


@functools.lru_cache(maxsize=4096)
def _compile_globs(patterns: str) -> re.Pattern[str]:
    """Return one expression for several globs: each cell is compared with all limitations."""
    return re.compile("|".join(map(fnmatch.translate, patterns.split("|"))))


def is_target(text: str) -> bool:
    """Return whether a text has the form of a target."""
    return _SPELLING.fullmatch(text) is not None


def matches_target(patterns: str, target: Target) -> bool:
    """Return whether globs over targets, separated by ``|``, match a target as spelled, or the
    recipe that it varies."""
    return matches_any_glob(patterns, str(target)) or matches_any_glob(patterns, str(target.base))


def is_cell_id(text: str) -> bool:
    """Whether a text has the form of a cell id; other tests' names have brackets or spaces."""
    return _CELL.fullmatch(text) is not None


def split_cell_id(text: str) -> tuple[str, Target]:
    """Inverse of :func:`cell_id`.

    Raises:
        UnknownTarget: there is no ``@``, or no target after it.
    """
    case, at, target = text.rpartition("@")
    if not at or not case:
        raise UnknownTarget(f"cell {text!r} is not spelled case@backend:recipe")
    return case, Target.parse(target)
