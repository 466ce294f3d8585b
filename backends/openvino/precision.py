"""Rounding models of OpenVINO's CPU plugin."""

from __future__ import annotations

from harness.backend_api import Precision

FLOAT32 = Precision()
STATIC = Precision(safety=2.0, samples=16)
