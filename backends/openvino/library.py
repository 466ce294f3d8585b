"""Find OpenVINO's packages and its C library, without importing them; its environment variables."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

LIBRARY_VARIABLE = "OPENVINO_LIB_PATH"
"""The environment variable from which the delegate takes the path of the C library."""

ISA_VARIABLE = "OV_CPU_MAX_ISA"
"""Environment variable of the CPU plugin: the most capable instruction set that it uses.

It is also the key of a compile spec, which the delegate ignores: the program says in which
environment it is to run.
"""

FLOAT32_ISA = "AVX512_CORE_VNNI"
"""The most capable set without products of bfloat16 or float16: the CPU plugin then computes in
float32 what is float32. A processor with fewer sets uses those that it has.

oneDNN's kernels are not limited (``ONEDNN_MAX_CPU_ISA``), because the runtime refuses a model that
another process compiled with another limit. Products of int8 keep VNNI: with AVX2, grouped
convolutions of int8 are wrong, whether oneDNN is limited or not.
"""

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
