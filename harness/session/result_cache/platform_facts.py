"""The dependencies of a cell besides sources: installed packages, Python, and the kind of host."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import shutil
import sys
import sysconfig

from harness.record.host import describe_vectors
from harness.vendors.versions import OURS, fingerprint_distribution

# Variables that change how vendors compute or which files they find; CXX compiles Metal's shaders.
_PREFIXES = ("ATEN_", "CUDA_", "EXECUTORCH_", "GOMP_", "KMP_", "MKL_", "MLX_", "OMP_",
             "OPENBLAS_", "TORCH", "XNN")  # fmt: skip
_NAMES = ("CC", "CONFORM_NO_SPEED", "CXX", "LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH")
_COMPILERS = ("g++", "c++", "clang++")


@functools.cache
def describe_packages() -> str:
    """Return a digest of every installed distribution, by its installation record.

    This project's own is left out: its files are read one by one.
    """
    found: dict[str, str] = {}
    for one in map(fingerprint_distribution, importlib.metadata.distributions(path=_places())):
        name = one.partition(" ")[0]
        # Python imports the first one on the path.
        if name and name != OURS:
            found.setdefault(name, one)
    return hashlib.sha256("\n".join(sorted(found.values())).encode()).hexdigest()


def _places() -> list[str]:
    """Return the search path for packages, without folders that a package added from inside itself.

    Importing setuptools, for example, adds its vendored packages; the environment is still the
    same.
    """
    roots = {f"{sysconfig.get_path(name)}{os.sep}" for name in ("purelib", "platlib")}
    return [place for place in sys.path if not place.startswith(tuple(roots))]


def describe_host() -> str:
    """Return the kind of host on one line: machine and vectors, system and C library, Python.

    The number of cores is left out: a plain run starts as many workers as memory allows, and a
    different order of summation stays within the bound.
    """
    libc = "-".join(platform.libc_ver()) if sys.platform != "darwin" else platform.mac_ver()[0]
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{describe_vectors()} {sys.platform} {libc} {python}"


def describe_variables() -> str:
    """Return the environment variables that affect cells, a line each."""
    return "\n".join(
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name in _NAMES or name.startswith(_PREFIXES)
    )


def describe_compilers() -> str:
    """Return the C++ compilers with size and time, which change when one is replaced; none is
    run."""
    lines = []
    for name in (os.environ.get("CXX") or "", *_COMPILERS):
        found = shutil.which(name) if name else None
        if found is not None:
            state = os.stat(found)
            lines.append(f"{os.path.realpath(found)} {state.st_size} {state.st_mtime_ns}")
    return "\n".join(lines)
