"""A project with one small suite, for tests that start pytest."""

from pathlib import Path

import pytest

from harness.pytest_plugin.tests.sessions import new_project


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return new_project(tmp_path)
