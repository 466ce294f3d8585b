"""Import pandas with the first table only, so that ``import reports`` stays fast."""

from __future__ import annotations

import functools
import importlib
from typing import Any

#: A ``pandas.DataFrame``; untyped, since pandas is not imported here.
Frame = Any


@functools.cache
def pandas() -> Any:
    """Return the module pandas."""
    return importlib.import_module("pandas")
