"""Skips tests that execute programs, where OpenVINO is not installed."""

from __future__ import annotations

import pytest

from backends.openvino import BACKEND

_STATE = BACKEND.availability()

needs_openvino = pytest.mark.skipif(not _STATE.available, reason=_STATE.reason)
