"""Helper of the suites for CoreML only: the targets of their cases."""

from __future__ import annotations

from dataclasses import replace

from harness import Case


def on_coreml(*cases: Case, targets: str = "coreml:fp32") -> list[Case]:
    """Restrict cases to CoreML targets."""
    return [replace(case, targets=targets, tags=case.tags | {"coreml"}) for case in cases]
