"""Names of the cases of limitations."""
from __future__ import annotations


def find_apart() -> set[tuple[str, int]]:
    return set()
