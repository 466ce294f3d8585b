"""Names for authors of backends: protocols, recipes, and what executes programs without a device.

``backend_api.pyi`` lists them; each is imported on first use. docs/own-backend.md shows how a
backend uses them.
"""

import ast
import importlib
from pathlib import Path
from typing import Any

from harness.vendors.quiet import quiet_vendors

# Not by lazy_loader: it would also set each name in harness, where it must warn.
_MODULES = {
    name.name: f"harness.{statement.module}"
    for statement in ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8")).body
    if isinstance(statement, ast.ImportFrom)
    for name in statement.names
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with quiet_vendors():  # the first use of a name may import torch and executorch
        found = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
