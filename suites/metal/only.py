"""What the suites for Metal alone share: where their cases run."""

from __future__ import annotations

from dataclasses import replace

from harness import Case

TARGETS = "metal:fp32|metal:bf16"


def on_metal(*cases: Case, targets: str = TARGETS) -> list[Case]:
    """The cases, for the Metal targets of a plain run."""
    return [replace(case, targets=targets, tags=case.tags | {"metal"}) for case in cases]
