"""What native code prints on standard error, kept from the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr


@contextmanager
def redirect_native_stderr(file: str) -> Iterator[None]:
    """Have all that the process prints on standard error, by native code too, go to a file.

    Args:
        file: what it holds is kept.
    """
    with open(file, "a", encoding="utf-8") as log:
        kept = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            # The runtime's Python bindings print to what Python has for standard error.
            with redirect_stderr(log):
                yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
