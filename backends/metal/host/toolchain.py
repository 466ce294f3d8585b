"""The compiler, its flags, and the cache of compiled libraries.

A cache folder belongs to one compiler, one shim and one set of flags. It contains the runtime, a
library for each set of sources, and precompiled headers: sources share a few headers, which take
longer to read than a kernel. Files are renamed into place, so no process sees an incomplete one.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from backends.metal.host.errors import CompileError
from harness.cache_folders import cache_folder

_HERE = Path(__file__).parent

# Metal is a dialect of C++14. Its literals are floats; the runtime compiles shaders with safe math,
# so nothing is reassociated or fused, and each operation rounds once.
_FLAGS = (
    "-std=gnu++14 -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti -w "
    "-fsingle-precision-constant -ffp-contract=off -fno-math-errno -fno-trapping-math "
    "-fwrapv -fno-strict-aliasing -fsanitize=integer-divide-by-zero "
    # A variable without a value would have one by chance; Metal leaves it undefined as well.
    "-ftrivial-auto-var-init=pattern "
    # From g++ 13 on, half would otherwise be computed in float and rounded at the store only.
    "-fexcess-precision=16"
).split()
# The runtime assumes that calls have the same order in memory as in the source, and that two calls
# are two places in the source. It uses this to find which lanes of a SIMD group are together.
_FLAGS += (
    "-fno-reorder-blocks -fno-thread-jumps -fno-crossjumping -fno-guess-branch-probability "
    "-fno-tree-ch -fno-split-paths -fno-code-hoisting"
).split()
_OLDEST = 12  # the first release with _Float16 in C++
_OPTIMIZE = {False: ("-O1",), True: ("-O1", "-DCONFORM_CHECKED", "-fsanitize=thread")}
# Calls into the runtime at function boundaries cost time and give no information.
_CHECKED = ("--param", "tsan-instrument-func-entry-exit=0")


def compile_library(header: str, source: str, *, checked: bool, cache: Path | None = None) -> Path:
    """Return the shared library of a C++ source; compile it if it is not in the cache.

    Args:
        header: the beginning of the source, shared with other sources; includes the shim.
        source: the rest of the source.
        checked: whether accesses are checked.
        cache: folder of all entries; the user's cache folder by default.

    Raises:
        CompileError: the compiler is missing or rejects the source.
    """
    folder = toolchain_folder(cache)
    digest = hashlib.sha256(f"{checked}\n{header}{source}".encode()).hexdigest()[:32]
    target = folder / f"{digest}.so"
    if not target.exists():
        flags = [*_FLAGS, *_OPTIMIZE[checked], *(_CHECKED if checked else ()), *_including(folder)]
        _build(folder, target, header, source, flags)
    return target


def runtime_library(cache: Path | None = None) -> Path:
    """Return the library that runs threadgroups and checks accesses.

    Raises:
        CompileError: the compiler is missing or rejects the runtime.
    """
    return _runtime_path(toolchain_folder(cache))


def toolchain_folder(cache: Path | None = None) -> Path:
    """Return the folder of this compiler, shim and set of flags; build the runtime in it.

    Raises:
        CompileError: see :func:`runtime_library`.
    """
    folder = (cache or _cache_folder()) / _digest()
    target = _runtime_path(folder)
    # Check each time: a cache can be emptied while programs run.
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _build_runtime(folder, target)
    return folder


@functools.cache
def _digest() -> str:
    digest = hashlib.sha256(compiler_version().encode())
    # This file defines the flags and the linking of kernels to the runtime.
    for path in [Path(__file__), *_shim_files(), *_torch_headers()]:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _runtime_path(folder: Path) -> Path:
    # The loader identifies libraries by name, so each cache has its own name.
    place = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return folder / f"libconform-metal-{place}.so"


@functools.cache
def compiler() -> str:
    """Return the path of g++, or of ``CXX`` if it is set.

    Raises:
        CompileError: the compiler is missing, older than 12, or not GCC. The runtime relies on
            GCC's layout of code (:data:`_FLAGS`).
    """
    name = os.environ.get("CXX") or "g++"
    found = shutil.which(name)
    if found is None:
        raise CompileError(f"Metal kernels execute with g++ {_OLDEST} or later; there is no {name}")
    probe = [found, "-x", "c++", "-E", "-P", "-"]
    text = "#ifdef __clang__\n0\n#else\n__GNUC__\n#endif\n"
    made = subprocess.run(probe, input=text, capture_output=True, text=True, check=False)
    release = made.stdout.strip()
    if not release.isdigit() or int(release) < _OLDEST:
        what = "clang" if release == "0" else f"release {release or '?'} of GCC"
        raise CompileError(
            f"executing Metal kernels takes g++ {_OLDEST} or later; {found} is {what}"
        )
    return found


@functools.cache
def compiler_version() -> str:
    """Return text that identifies the compiler and the machine that it compiles for."""
    made = subprocess.run([compiler(), "--version"], capture_output=True, text=True, check=False)
    return f"{compiler()} {platform.machine()} {made.stdout}"


def _shim_files() -> list[Path]:
    folders = (_HERE / "include", _HERE / "include" / "conform", _HERE / "runtime")
    return sorted(path for folder in folders for path in folder.iterdir() if path.is_file())


def _torch_include() -> Path | None:
    spec = importlib.util.find_spec("torch")
    places = spec.submodule_search_locations if spec else None
    return Path(places[0]) / "include" if places else None


def _torch_headers() -> list[Path]:
    include = _torch_include()
    return sorted((include / "c10" / "metal").glob("*.h")) if include else []


@functools.cache
def _cache_folder() -> Path:
    """Return the user's cache folder, or a private temporary folder if it is not writable."""
    folder = cache_folder("metal-host")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        holder = tempfile.TemporaryDirectory(prefix="conform-metal-host-")
        _KEPT.append(holder)  # removed when the process ends
        return Path(holder.name)
    return folder


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def _including(folder: Path) -> list[str]:
    include = _torch_include()
    return [f"-I{_HERE / 'include'}", *([f"-I{include}"] if include else []), f"-I{folder}"]


def _precompiled(folder: Path, header: str, flags: list[str]) -> str:
    """Return the name of a header in the folder; precompile it there with these flags.

    g++ reads the header itself if the precompiled header has another compiler or other flags.
    """
    digest = hashlib.sha256("\n".join([*flags, header]).encode()).hexdigest()[:32]
    name = f"{digest}.h"
    made = folder / f"{name}.gch"
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as making:
            text = Path(making) / name
            text.write_text(header)
            _run([*flags, "-x", "c++-header", str(text), "-o", f"{text}.gch"])
            os.replace(text, folder / name)
            os.replace(f"{text}.gch", made)
    return name


def _build(folder: Path, target: Path, header: str, source: str, flags: list[str]) -> None:
    begin = f'#include "{_precompiled(folder, header, flags)}"\n'
    with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as making:
        unit = Path(making) / "kernel.cpp"
        unit.write_text(begin + source)
        made = Path(making) / "kernel.o"
        _run([*flags, "-c", str(unit), "-o", str(made)])
        library = Path(making) / "kernel.so"
        # Linked without the sanitizer's flag: our runtime replaces the sanitizer's. Linking
        # libstdc++, which no kernel uses, would take most of the time.
        linked = [str(_runtime_path(folder)), "-nodefaultlibs", "-lm", "-lc", "-lgcc"]
        linked += ["-Wl,-rpath,$ORIGIN", "-Wl,--no-undefined"]
        _run(["-shared", str(made), "-o", str(library), *linked])
        os.replace(library, target)


def _build_runtime(folder: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as making:
        library = Path(making) / target.name
        units = sorted(str(path) for path in (_HERE / "runtime").glob("*.cpp"))
        flags = "-std=gnu++17 -O2 -fPIC -shared -fno-exceptions -fno-rtti -fcf-protection=none"
        if platform.machine() not in ("x86_64", "AMD64"):
            flags = flags.replace(" -fcf-protection=none", "")
        soname = f"-Wl,-soname,{target.name}"
        _run([*flags.split(), f"-I{_HERE / 'include'}", *units, soname, "-o", str(library)])
        os.replace(library, target)


def _run(arguments: list[str]) -> None:
    made = subprocess.run(
        [compiler(), *arguments], capture_output=True, text=True, check=False, errors="replace"
    )
    if made.returncode == 0:
        return
    lines = [line.strip() for line in made.stderr.splitlines() if "error" in line.lower()]
    shown = "; ".join(lines[:3]) or made.stderr.strip()[:300] or f"exit code {made.returncode}"
    raise CompileError(f"g++ refuses the kernel: {shown}", made.stderr)
