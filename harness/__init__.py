"""The core: a case meets a target; it knows no backend and no suite.

Names are imported when first used, so that reading records (:mod:`harness.record.cell`,
:mod:`harness.record.run`) never loads torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.backend import Availability, Backend, Execution, Recipe
    from harness.case import Built, Case
    from harness.errors import ConformError
    from harness.limitation import Limitation
    from harness.pipeline.runner import run_cell
    from harness.pipeline.stages import LowerOptions
    from harness.pipeline.tester import Tester
    from harness.precision import Precision
    from harness.record.cell import Cell, Delegation, Numerics, Status
    from harness.record.run import Run
    from harness.target import Target

_HOME = {
    "Availability": "backend",
    "Backend": "backend",
    "Built": "case",
    "Case": "case",
    "Cell": "cell",
    "ConformError": "errors",
    "Delegation": "cell",
    "Execution": "backend",
    "Limitation": "limitation",
    "LowerOptions": "stages",
    "Numerics": "cell",
    "Precision": "precision",
    "Recipe": "backend",
    "Run": "run",
    "Status": "cell",
    "Target": "target",
    "Tester": "tester",
    "run_cell": "runner",
}

__all__ = [
    "Availability",
    "Backend",
    "Built",
    "Case",
    "Cell",
    "ConformError",
    "Delegation",
    "Execution",
    "Limitation",
    "LowerOptions",
    "Numerics",
    "Precision",
    "Recipe",
    "Run",
    "Status",
    "Target",
    "Tester",
    "run_cell",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"harness.{_HOME[name]}"), name)
    globals()[name] = value
    return value
