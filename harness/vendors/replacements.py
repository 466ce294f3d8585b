"""Attributes of vendors' modules and classes that this process has replaced, in one list.

All replacements are made by :class:`AttributeReplacer`, also those for the length of a block. The
list can be read, verified and undone. No import replaces anything: :mod:`harness.pipeline.speed` is
installed explicitly, and ``--no-speed`` skips it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


class _Absent:
    def __repr__(self) -> str:
        return "absent"


_ABSENT = _Absent()


@dataclass(frozen=True, eq=False)
class Replacement:
    """One attribute that was replaced.

    Attributes:
        part: who replaced it, such as ``speed.passes.fake_results``.
        owner: a module or a class.
        name: of the attribute in its own ``__dict__``.
        original: its value before; an instance of a private class where there was none.
        value: its value since.
    """

    part: str
    owner: Any
    name: str
    original: Any
    value: Any

    @property
    def is_in_place(self) -> bool:
        """Return whether the attribute still has the replacement's value."""
        return vars(self.owner).get(self.name, _ABSENT) is self.value

    @property
    def was_absent(self) -> bool:
        """Whether the owner had no such attribute of its own before."""
        return self.original is _ABSENT

    def undo(self) -> None:
        """Give the attribute its original value."""
        if self.was_absent:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.original)

    def __str__(self) -> str:
        where = getattr(self.owner, "__qualname__", None)
        module = self.owner.__name__ if where is None else self.owner.__module__
        return f"{module}:{'' if where is None else f'{where}.'}{self.name}"


SPEED = "speed."
"""Prefix of the parts of :mod:`harness.pipeline.speed`."""

_made: list[Replacement] = []
_runs_all_vendor_code = False


class AttributeReplacer:
    """Replaces attributes on behalf of one part."""

    def __init__(self, part: str) -> None:
        self.part = part

    def __call__(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute of a module or a class.

        Args:
            owner: the module or class.
            name: the attribute; one that the owner inherits or lacks is added to it.
            value: its new value.
        """
        original = vars(owner).get(name, _ABSENT)
        setattr(owner, name, value)
        _made.append(Replacement(self.part, owner, name, original, vars(owner)[name]))

    @contextmanager
    def replace_within(self, owner: Any, name: str, value: Any) -> Iterator[None]:
        """Replace an attribute within a block; see :meth:`__call__`."""
        self(owner, name, value)
        replaced = _made[-1]
        try:
            yield
        finally:
            replaced.undo()
            _made.remove(replaced)

    def replace_everywhere(self, original: Any, value: Any) -> None:
        """Replace a function in each loaded module that has it under its own name."""
        name: str = original.__name__
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get(name) is original:
                self(module, name, value)


def list_replacements() -> tuple[Replacement, ...]:
    """All replacements of this process, in the order in which they were made."""
    return tuple(_made)


def is_sped_up() -> bool:
    """Whether vendors' code may be skipped where its result is known.

    False with ``--no-speed``, and where the execution of this code is recorded.
    """
    return has_replaced(SPEED) and not _runs_all_vendor_code


def has_replaced(prefix: str) -> bool:
    """Whether parts with this prefix have replaced an attribute."""
    return any(each.part.startswith(prefix) for each in _made)


def set_runs_all_vendor_code(wanted: bool) -> None:
    """Set whether :func:`is_sped_up` is False although attributes are replaced for speed."""
    global _runs_all_vendor_code
    _runs_all_vendor_code = wanted


def find_overwritten() -> list[Replacement]:
    """Replacements whose attribute has another value now, and was not replaced again by us."""
    last = {(id(each.owner), each.name): each for each in _made}
    return [each for each in last.values() if not each.is_in_place]


def undo_replacements(prefix: str = "", name: str | None = None) -> None:
    """Restore the original values of attributes; call it only when no program is being processed.

    Args:
        prefix: prefix of the parts whose replacements are undone; default: all.
        name: name of the attributes; default: all.

    Raises:
        RuntimeError: other code has replaced one of them since; nothing is undone.
    """

    def is_meant(each: Replacement) -> bool:
        return each.part.startswith(prefix) and name in (None, each.name)

    if foreign := [each for each in find_overwritten() if is_meant(each)]:
        raise RuntimeError(f"replaced by others since: {', '.join(map(str, foreign))}")
    for each in [each for each in reversed(_made) if is_meant(each)]:
        each.undo()
        _made.remove(each)
