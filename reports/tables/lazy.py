"""pandas, imported when the first table is asked for, so that ``import reports`` stays quick."""

from __future__ import annotations

import functools
import importlib
from typing import Any

#: A ``pandas.DataFrame``; pandas carries no types here, since it is not imported.
Frame = Any


@functools.cache
def pandas() -> Any:
    """The module."""
    return importlib.import_module("pandas")
