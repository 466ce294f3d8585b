"""What a plain run leaves to the night, and the words of ``-m`` that take it all the same."""

from __future__ import annotations

import re

import pytest

from harness.model.registry import NIGHTLY

TIERS = "conform_tiers"
"""Ini option: tags that stand for a part of the night. ``-m`` with such a word takes all cells of
the tag, those of the night included; ``-m "model and not nightly"`` leaves these."""


def names_the_night(config: pytest.Config) -> bool:
    """Whether ``-m`` itself says what is taken of the night; the project's own says none."""
    return NIGHTLY in config.option.markexpr


def is_by_day(config: pytest.Config) -> bool:
    """Whether the night's cells, two of three, need not even be made: pytest would take each out
    again. One that is named by its node id is, so that pytest finds what it says it leaves out."""
    named = any("::" in str(name) for name in config.args)
    marks = config.option.markexpr
    return not named and (NIGHTLY not in marks or marks == f"not {NIGHTLY}")


def tiers(config: pytest.Config) -> frozenset[str]:
    """The tags whose cells of the night ``-m`` asks for by their name."""
    if names_the_night(config):
        return frozenset()
    before = ""
    named = set[str]()
    for word in re.findall(r"[^\s()]+", config.option.markexpr):
        if before != "not":
            named.add(word)
        before = word
    return frozenset(named & set(config.getini(TIERS)))
