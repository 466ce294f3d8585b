"""Unusual but legal programs pass, and copies of them with a fault are red."""

from __future__ import annotations

import pytest

from backends.vgf import BACKEND
from backends.vgf.tests.requirements import needs_runtime
from harness import check_backend
from harness.contract.tests.test_specimens import UNSUPPORTED


@pytest.mark.nightly
@needs_runtime
def test_it_judges_specimens_rightly() -> None:
    # Arm's passes lower for both.
    check_backend(BACKEND, recipes=["fp"], unsupported=UNSUPPORTED["tosa:fp"])
