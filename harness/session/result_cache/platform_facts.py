"""What a cell hangs on besides sources: the packages installed, Python, and the kind of host."""

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

# Variables that change how vendors compute or what is found; CXX compiles Metal's shaders.
_PREFIXES = ("ATEN_", "CUDA_", "EXECUTORCH_", "GOMP_", "KMP_", "MKL_", "MLX_", "OMP_",
             "OPENBLAS_", "TORCH", "XNN")  # fmt: skip
_NAMES = ("CC", "CONFORM_NO_SPEED", "CXX", "LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH")
_COMPILERS = ("g++", "c++", "clang++")


@functools.cache
def describe_packages() -> str:
    """A digest of every distribution that is installed, as it was recorded.

    This project's own is left out: its files are read one by one.
    """
    found: dict[str, str] = {}
    for one in map(fingerprint_distribution, importlib.metadata.distributions(path=_places())):
        name = one.partition(" ")[0]
        # The first on the path is the one that is imported.
        if name and name != OURS:
            found.setdefault(name, one)
    return hashlib.sha256("\n".join(sorted(found.values())).encode()).hexdigest()


def _places() -> list[str]:
    """Where packages are looked for, without what a package has put on the path of its own inside:
    whoever imports setuptools finds what it vendors, and is of the same environment as before."""
    roots = {f"{sysconfig.get_path(name)}{os.sep}" for name in ("purelib", "platlib")}
    return [place for place in sys.path if not place.startswith(tuple(roots))]


def describe_host() -> str:
    """The kind of host, in one line: machine and vectors, the system and its C library, Python.

    Not how many cores there are: a plain run takes as many workers as there is memory for, and
    what a sum of another order does to a figure is within the bound that decides.
    """
    libc = "-".join(platform.libc_ver()) if sys.platform != "darwin" else platform.mac_ver()[0]
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{describe_vectors()} {sys.platform} {libc} {python}"


def describe_variables() -> str:
    """The variables of this process' environment that reach what cells run, a line each."""
    return "\n".join(
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name in _NAMES or name.startswith(_PREFIXES)
    )


def describe_compilers() -> str:
    """Which C++ compilers there are, by what tells that one was replaced; they are not run."""
    lines = []
    for name in (os.environ.get("CXX") or "", *_COMPILERS):
        found = shutil.which(name) if name else None
        if found is not None:
            state = os.stat(found)
            lines.append(f"{os.path.realpath(found)} {state.st_size} {state.st_mtime_ns}")
    return "\n".join(lines)
