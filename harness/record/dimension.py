"""A dimension that varies, in a record. Plain data; imports no torch."""

from __future__ import annotations

import msgspec


class Dimension(msgspec.Struct, frozen=True, kw_only=True):
    """A dimension of an input that varies.

    ``low`` and ``high`` are the range that the exported program declares, ``high`` None for no
    maximum. ``sizes`` has the size in each call, in order: those of the case, then those that were
    added so that the ends of the range are executed.
    """

    input: str
    dim: int
    low: int
    high: int | None
    sizes: list[int]

    def __str__(self) -> str:
        return f"{self.input}:{self.dim}"

    @property
    def span(self) -> str:
        """The range in words, ``1 to 16`` or ``1 and more``."""
        return f"{self.low} and more" if self.high is None else f"{self.low} to {self.high}"
