"""The process that executes payloads of tests: one a session, since tests of several modules take
turns in a worker, and what a module holds is made anew each time it comes round."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backends.mlx.execution.tests.execution import Worker


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    started = Worker()
    yield started
    started.close()
