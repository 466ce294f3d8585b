"""Known gaps in the Arm TOSA backend and reference model."""

from __future__ import annotations

from harness.limitation import Limitation

TOSA: list[Limitation] = []
