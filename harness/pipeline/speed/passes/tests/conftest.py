"""Walks are told by what stands in for upstream's."""

from __future__ import annotations

import pytest

from harness.pipeline import speed


@pytest.fixture(autouse=True)
def _installed() -> None:
    speed.install()
