"""Helper of the suites for Metal only: the targets of their cases."""

from __future__ import annotations

from dataclasses import replace

from harness import Case

TARGETS = "metal:fp32|metal:bf16"


def on_metal(*cases: Case, targets: str = TARGETS) -> list[Case]:
    """Restrict cases to the Metal targets."""
    return [replace(case, targets=targets, tags=case.tags | {"metal"}) for case in cases]
