"""Dependencies of generated code besides its program: the generating packages and settings."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import inspect
import os
import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import harness
from backends.metal.generation.upstream import MetalBackend
from harness.vendors.torch import _dynamo, _functorch, _inductor
from harness.vendors.versions import fingerprint_distribution

_GENERATING = ("executorch", "sympy", "torch", "torchao")
_UPSTREAM = ("executorch.backends.aoti", "executorch.backends.apple.metal")
_VENDORS = ("abc", "builtins", "contextlib", "enum", "executorch", "torch", "typing")
_SET_BY_INDUCTOR = ("TORCHINDUCTOR_CACHE_DIR",)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_CODE = (".py", ".so", ".dylib", ".pyd")
_HARNESS = Path(harness.__file__).parent
_OURS = (Path(__file__).parent, _HARNESS / "private", _HARNESS / "pipeline" / "speed")


def settings() -> str:
    """Return the settings that a process can change between two programs, as text."""
    configs: list[Any] = [_inductor.config, _functorch.config, _dynamo.config]
    return (
        f"{[_values(config, config.get_hash()) for config in configs]} {torch.get_default_dtype()} "
        f"{torch.are_deterministic_algorithms_enabled()} {torch.get_float32_matmul_precision()}"
    )


@functools.lru_cache(64)
def _values(config: Any, state: bytes) -> str:
    """Return a digest of a configuration that is equal in all processes.

    The configuration's own hash depends on the order of sets and the addresses of functions.
    """
    found = hashlib.sha256()
    for name, value in sorted(config.save_config_portable().items()):
        text = sorted(map(repr, value)) if isinstance(value, (set, frozenset)) else repr(value)
        found.update(f"{name}={_ADDRESS.sub('', str(text))}\n".encode())
    return found.hexdigest()


def is_as_installed() -> bool:
    """Return whether upstream's Metal backend has no replaced functions.

    A replacement, such as a planted fault of a test, generates other code than the sources would.
    """
    modules = [one for name, one in list(sys.modules.items()) if name.startswith(_UPSTREAM)]
    owners: list[Any] = list(modules)
    for module in modules:
        owners += [one for one in vars(module).values() if inspect.isclass(one) and _is_in(one)]
    return all(
        _is_vendors(value)
        for owner in owners
        for name, value in vars(owner).items()
        if (owner, name) != (MetalBackend, "preprocess")  # replaced by ``generate.install``
    )


def _is_in(defined: type) -> bool:
    return defined.__module__.startswith(_UPSTREAM)


def _is_vendors(value: Any) -> bool:
    function = getattr(value, "__func__", value)
    # None for Python's own functions, such as __new__.
    home = getattr(function, "__module__", None)
    return not callable(function) or home is None or home.startswith(_VENDORS)


@functools.cache
def digest() -> str:
    """Return a digest of packages, our generating code, Python, and loaded conftest files."""
    found = hashlib.sha256()
    for line in _lines():
        found.update(line.encode() + b"\n")
    return found.hexdigest()[:32]


def _lines() -> Iterator[str]:
    yield f"{sys.version} {sys.platform} {platform.machine()}"
    for key, value in sorted(os.environ.items()):
        if key.startswith("TORCH") and key not in _SET_BY_INDUCTOR:
            yield f"{key}={value}"
    for place in sys.path:
        yield from sorted(path.name for path in Path(place).glob("*.dist-info"))
    for name in _GENERATING:
        yield from _package(name)
    for folder in _OURS:
        found = (path for path in sorted(folder.rglob("*.py")) if path.parent.name != "tests")
        yield from map(_content, found)
    for name, module in sorted(sys.modules.items()):
        if name.rpartition(".")[2] == "conftest" and module.__file__:
            yield _content(Path(module.__file__))


def _content(path: Path) -> str:
    return f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}"


def _package(name: str) -> Iterator[str]:
    """Yield the fingerprint of an installed package, and its files changed since installation."""
    since = 0
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # a checkout on the path
        found = importlib.metadata.distribution(name)
        yield fingerprint_distribution(found)
        written = Path(str(found.locate_file(f"{name}-{found.version}.dist-info/RECORD")))
        since = written.stat().st_mtime_ns if written.is_file() else 0
    spec = importlib.util.find_spec(name)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for folder, _, files in sorted(os.walk(place)):
            for file in sorted(files):
                if not file.endswith(_CODE):
                    continue
                path = os.path.join(folder, file)
                state = os.stat(path)
                if state.st_mtime_ns > since:
                    yield f"{path} {state.st_size} {state.st_mtime_ns}"
