"""The core: a case meets a target; it knows no backend and no suite.

What suites, backends and tools outside need is importable from here; ``__init__.pyi`` has the
names. Each is imported when it is first used, so that reading records never loads torch.

The vocabulary stands beside this file. The wings, from the ground up: ``record/`` and ``values/``,
``execution/``, ``numerics/``, ``pipeline/``, ``tracing/``, ``collection/``; ``checking/`` is for
anybody's own model, ``testing/`` for authors of backends.

PYTEST_DONT_REWRITE: workers have this module before pytest could rewrite its assertions.
"""

from typing import Any

import lazy_loader

from harness.private.vendors import vendors_quiet

_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    with vendors_quiet():  # the first use of a name may import torch and executorch
        return _find(name)
