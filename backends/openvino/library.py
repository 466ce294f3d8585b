"""Find OpenVINO's packages and its C library, without importing them."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

LIBRARY_VARIABLE = "OPENVINO_LIB_PATH"
"""The environment variable from which the delegate takes the path of the C library."""

INSTALL = "pip install 'executorch-conform[openvino]'"

# executorch.backends.openvino imports its quantizer, and that nncf, whatever is lowered.
_LOWERING = ("openvino", "nncf")


def find_missing_packages() -> list[str]:
    """Return the packages that lowering needs and that are not installed."""
    return [name for name in _LOWERING if importlib.util.find_spec(name) is None]


def find_library() -> Path | None:
    """Return the C library that the user named, else that of the installed package, else None."""
    if named := os.environ.get(LIBRARY_VARIABLE):
        return Path(named)
    spec = importlib.util.find_spec("openvino")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        found = sorted(Path(folder, "libs").glob("libopenvino_c.so*"))
        if found:
            return found[-1]
    return None
