"""Defect: where a vendor's code fails or computes something else, and execution went past it."""

from __future__ import annotations

import msgspec


class Defect(msgspec.Struct, frozen=True, kw_only=True):
    """One defect of a program that execution went past, as though the vendor's code had none there.

    ``error`` says what is wrong. ``node`` is the node of the lowered graph, ``op`` its operator,
    ``source`` the line of the model that it is from; each is empty where it is not known.
    """

    error: str
    node: str = ""
    op: str = ""
    source: str = ""

    def __str__(self) -> str:
        node = f"{self.node} ({self.op})" if self.op else self.node
        place = ", ".join(part for part in (node, self.source) if part)
        return f"{place}: {self.error}" if place else self.error
