"""The tests of this repository: the pytest plugin, and fixtures of all tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

pytest_plugins = ["harness.pytest_plugin"]


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    """Commands silence vendors' loggers for their process, and tests call commands in theirs."""
    yield
    logging.disable(logging.NOTSET)
