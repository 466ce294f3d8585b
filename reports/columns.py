"""The columns of tables: targets by backend and recipe.

Targets that vary the passes of one recipe share a column if there are more than two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reports.summary import Totals

_APART = 2
VARIED = "± passes"
"""In a column name: the targets that vary the passes of a recipe."""


@dataclass(frozen=True)
class Column:
    """One target, or the targets that vary the passes of one recipe.

    Attributes:
        name: the target, or the recipe's target with :data:`VARIED`.
        targets: the targets in the column.
    """

    name: str
    targets: tuple[str, ...]

    @property
    def backend(self) -> str:
        """The part of the name before the colon."""
        return self.name.partition(":")[0]

    @property
    def recipe(self) -> str:
        """The part of the name after the colon."""
        return self.name.partition(":")[2]


def columns(targets: Iterable[str]) -> list[Column]:
    """The columns of a table: backends in the order of the targets, in each its recipes, and last
    the columns of varied passes."""
    groups: dict[str, dict[str, list[str]]] = {}
    for target in targets:
        base = _base(target)
        backend = groups.setdefault(base.partition(":")[0], {})
        backend.setdefault(base if base == target else f"{base} {VARIED}", []).append(target)
    made: list[Column] = []
    for backend in groups.values():
        for name in sorted(backend, key=lambda name: name.endswith(VARIED)):
            members = backend[name]
            if len(members) > _APART:
                made.append(Column(name, tuple(members)))
            else:
                made += [Column(target, (target,)) for target in members]
    return made


def _base(target: str) -> str:
    # Not Target.parse: a record may have a target that this version does not know.
    backend, colon, recipe = target.partition(":")
    ends = [at for sign in "+-" if (at := recipe.find(sign)) > 0]
    return f"{backend}{colon}{recipe[: min(ends)]}" if ends else target


@dataclass(frozen=True)
class Line:
    """A row of a table of totals.

    Attributes:
        total: totals of all targets of the column.
        members: totals of each target, if the column has several.
    """

    total: Totals
    members: tuple[Totals, ...] = ()


def lines(totals: Sequence[Totals]) -> list[Line]:
    """Totals of targets, one line for each column."""
    known = {total.target: total for total in totals}
    made: list[Line] = []
    for column in columns(known):
        members = tuple(known[target] for target in column.targets)
        made.append(Line(members[0]) if len(members) == 1 else _sum(column.name, members))
    return made


def _sum(name: str, members: tuple[Totals, ...]) -> Line:
    first = members[0]
    total = Totals(name, available=first.available, reason=first.reason)
    for member in members:
        total.counts += Counter(member.counts)
        total.seconds += member.seconds
        total.runtimes += Counter(member.runtimes)
    return Line(total, members)
