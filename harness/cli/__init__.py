"""Command line ``conform``.

``--help`` and commands that only read records start without torch: each command imports its
modules when it runs. This package is the only one that may import both the harness and the reports.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"__main__": ["main"]})
