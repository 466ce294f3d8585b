"""Target: where and how a case runs, spelled ``backend:recipe`` everywhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from harness.errors import UnknownTarget

_SPELLING = re.compile(r"([a-z][a-z0-9_]*):([a-z][a-z0-9_]*)")

_CELL = re.compile(rf"[^\s\[\]@]+@{_SPELLING.pattern}")


@dataclass(frozen=True, order=True)
class Target:
    """A backend and one of its recipes.

    ``str(target)`` and :meth:`parse` are inverse; the same spelling is used on the command
    line, in pytest ids and as the key of reports.
    """

    backend: str
    recipe: str

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read ``backend:recipe``.

        Raises:
            UnknownTarget: the text is not spelled that way. Whether the backend and the
                recipe exist is asked of :mod:`harness.registry`.
        """
        match = _SPELLING.fullmatch(text.strip())
        if match is None:
            raise UnknownTarget(
                f"target {text!r} is not spelled backend:recipe (for example xnnpack:fp32)"
            )
        return cls(*match.groups())

    def __str__(self) -> str:
        return f"{self.backend}:{self.recipe}"


def cell_id(case: str, target: Target | str) -> str:
    """The one name of a cell: ``case@backend:recipe``."""
    return f"{case}@{target}"


def any_glob(patterns: str, text: str) -> bool:
    """Whether one of the globs, separated by ``|``, matches the text."""
    return any(fnmatchcase(text, pattern) for pattern in patterns.split("|"))


def is_cell_id(text: str) -> bool:
    """Whether a text has the form of a cell id; other tests' names have brackets or spaces."""
    return _CELL.fullmatch(text) is not None


def split_cell_id(text: str) -> tuple[str, Target]:
    """Inverse of :func:`cell_id`.

    Raises:
        UnknownTarget: there is no ``@``, or what follows it is not a target.
    """
    case, at, target = text.rpartition("@")
    if not at or not case:
        raise UnknownTarget(f"cell {text!r} is not spelled case@backend:recipe")
    return case, Target.parse(target)
