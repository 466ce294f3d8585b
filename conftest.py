"""The tests of this repository: the pytest plugin, and fixtures of all tests."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import pytest

pytest_plugins = ["harness.pytest_plugin"]


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    """Commands silence vendors' loggers for their process, and tests call commands in theirs."""
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(autouse=True)
def _seed() -> None:
    """A test draws the same numbers on every run, whatever ran before it."""
    if "torch" in sys.modules:
        import torch

        torch.manual_seed(0)
