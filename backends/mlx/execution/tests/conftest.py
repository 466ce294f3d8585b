"""The process that executes payloads of tests. There is one for the session, because tests of
several modules alternate in a worker, and module fixtures would be set up again each time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backends.mlx.execution.tests.execution import Worker


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    started = Worker()
    yield started
    started.close()
