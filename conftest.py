"""Enables the pytest plugin of this project, and declares fixtures for all tests."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import pytest

pytest_plugins = ["harness.pytest_plugin"]
_PARAMETERS = pytest.StashKey[dict[str, int]]()


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker for tests whose parameters take long together."""
    config.addinivalue_line(
        "markers", "one_of(n): a plain run has the first of each n parameters, the nightly run all"
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark most parameters of a test with ``one_of`` as nightly."""
    marker = item.get_closest_marker("one_of")
    if marker is None:
        return
    counts = item.config.stash.setdefault(_PARAMETERS, {})
    test = item.nodeid.partition("[")[0]
    counts[test] = counts.get(test, -1) + 1
    if counts[test] % marker.args[0]:
        item.add_marker("nightly")


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
