"""Checks that the packages of the extra ``cluster`` are installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.errors import UsageError


@contextmanager
def require_dask() -> Iterator[None]:
    """Context in which modules that need Dask are imported.

    Raises:
        UsageError: Dask is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(
            f"a cluster needs Dask ({error.name} is not installed): "
            "pip install executorch-conform[cluster]"
        ) from error
