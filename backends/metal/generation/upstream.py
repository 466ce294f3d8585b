"""Upstream's Metal backend, imported without its warnings that it is experimental."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from executorch.exir.backend.partitioner import Partitioner

METHOD = "forward"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence upstream's warnings about its experimental classes within this context."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*experimental")
        yield


with quiet():
    from executorch.backends.aoti.aoti_backend import AotiBackend
    from executorch.backends.apple.metal.metal_backend import MetalBackend
    from executorch.backends.apple.metal.metal_partitioner import MetalPartitioner

__all__ = ["AotiBackend", "MetalBackend", "partitioners", "quiet"]


def partitioners() -> list[Partitioner]:
    """Return the Metal partitioner for the method ``forward``."""
    with quiet():
        return [MetalPartitioner([MetalBackend.generate_method_name_compile_spec(METHOD)])]
