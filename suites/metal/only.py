"""Helper of the suites for Metal only: the targets of their cases."""

from __future__ import annotations

from dataclasses import replace

from harness import Case
from suites.selection import take_turns

TARGETS = "metal:fp32|metal:bf16"


def on_metal(*cases: Case, targets: str = TARGETS) -> list[Case]:
    """Restrict cases to the Metal targets. A plain run selects the first, fourth, seventh ... case
    of an operator: compiling takes time."""
    restricted = [replace(case, targets=targets, tags=case.tags | {"metal"}) for case in cases]
    return take_turns(restricted, ("", "", targets))
