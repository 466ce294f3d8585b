"""Fixtures of all tests of the harness."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Commands silence vendors' logs for their process, which here is the tests'."""
    yield
    logging.disable(logging.NOTSET)
