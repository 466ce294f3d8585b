"""Limitations of crossings, by what is crossed."""

from __future__ import annotations

from harness import Limitation
from suites.crossings.limitations.dynamic import DYNAMIC
from suites.crossings.limitations.interface import INTERFACE
from suites.crossings.limitations.operators import OPERATORS
from suites.crossings.limitations.shared import SHARED
from suites.crossings.limitations.state import STATE
from suites.crossings.limitations.weights import WEIGHTS
from suites.known import copy_to_vgf

LIMITATIONS: list[Limitation] = [*OPERATORS, *WEIGHTS, *INTERFACE, *DYNAMIC, *SHARED, *STATE]
LIMITATIONS += copy_to_vgf(LIMITATIONS)
