"""Enables the pytest plugin of this project, and declares fixtures for all tests."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import pytest

pytest_plugins = ["harness.pytest_plugin"]


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    """Restore logging, which commands disable: tests call commands in their own process."""
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Seed torch, so that the numbers of a test do not depend on earlier tests."""
    if "torch" in sys.modules:
        import torch

        torch.manual_seed(0)
