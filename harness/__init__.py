"""The core of the test harness. It knows no backend and no suite.

Suites, backends and other tools import public names from here; ``__init__.pyi`` lists them. Each
is imported on first use, so reading records never loads torch. docs/architecture.md describes the
packages in the order in which data flows through them.

PYTEST_DONT_REWRITE: workers have this module before pytest could rewrite its assertions.
"""

import importlib
from typing import Any

import lazy_loader

from harness.vendors.quiet import quiet_vendors

_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    with quiet_vendors():  # the first use of a name may import torch and executorch
        if name == "registry":  # a module, which lazy_loader does not import from a package
            return importlib.import_module("harness.model.registry")
        return _find(name)
