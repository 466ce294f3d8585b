"""The core of the test harness. It knows no backend and no suite.

Users of cases, targets and runs import public names from here, and authors of backends from
:mod:`harness.backend_api`. ``__init__.pyi`` lists the names; each is imported on first use, so
reading records never loads torch. docs/architecture.md describes the packages in the order in
which data flows through them.

PYTEST_DONT_REWRITE: workers have this module before pytest could rewrite its assertions.
"""

import importlib
import warnings
from typing import Any

import lazy_loader

from harness.vendors.quiet import quiet_vendors

_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    with quiet_vendors():  # the first use of a name may import torch and executorch
        if name == "registry":  # a module, which lazy_loader does not import from a package
            return importlib.import_module("harness.model.registry")
        if name in __all__:
            return _find(name)
    # Until release 0.3 all names were here.
    backend_api = importlib.import_module("harness.backend_api")
    if name not in backend_api.__all__:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    warnings.warn(f"harness.{name} moved: import {name} from harness.backend_api",
                  DeprecationWarning, stacklevel=2)  # fmt: skip
    return getattr(backend_api, name)
