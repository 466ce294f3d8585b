"""The XNNPACK backend: optimized CPU kernels, executed by the runtime's own delegate."""

from backends.xnnpack.backend import BACKEND

__all__ = ["BACKEND"]
