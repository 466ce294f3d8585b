"""Known gaps in the XNNPACK partitioner and delegate."""

from __future__ import annotations

from harness.limitation import Limitation

XNNPACK: list[Limitation] = []
