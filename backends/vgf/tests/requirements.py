"""Skip tests that execute payloads where Arm's tools or the driver are missing."""

from __future__ import annotations

import pytest

from backends.vgf import BACKEND

STATE = BACKEND.availability()
needs_runtime = pytest.mark.skipif(not STATE.available, reason=STATE.reason)
