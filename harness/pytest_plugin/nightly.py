"""Which nightly cells ``-m`` selects."""

from __future__ import annotations

import re

import pytest

from harness.model.registry import NIGHTLY

TIERS_INI = "conform_tiers"
"""Ini option: tags that ``-m`` selects completely, nightly cells included; ``-m "model and not
nightly"`` excludes nightly cells."""


def marks_name_nightly(config: pytest.Config) -> bool:
    """Whether ``-m`` names nightly; the default of a project is "not nightly"."""
    return NIGHTLY in config.option.markexpr


def is_plain_run(config: pytest.Config) -> bool:
    """Whether nightly cells need not be created, as pytest would deselect them: five of six.

    With node ids on the command line all cells are created, so that pytest finds deselected ones.
    """
    named = any("::" in str(name) for name in config.args)
    marks = config.option.markexpr
    return not named and (NIGHTLY not in marks or marks == f"not {NIGHTLY}")


def get_selected_tiers(config: pytest.Config) -> frozenset[str]:
    """List the tags in ``-m`` whose nightly cells are selected as well."""
    if marks_name_nightly(config):
        return frozenset()
    before = ""
    named = set[str]()
    for word in re.findall(r"[^\s()]+", config.option.markexpr):
        if before != "not":
            named.add(word)
        before = word
    return frozenset(named & set(config.getini(TIERS_INI)))
