"""What a farm needs beside the rest of the harness: the extra ``cluster``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.errors import UsageError


@contextmanager
def needed() -> Iterator[None]:
    """Import what needs Dask.

    Raises:
        UsageError: it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(
            f"a farm needs Dask ({error.name} is not installed): "
            "pip install executorch-conform[cluster]"
        ) from error
