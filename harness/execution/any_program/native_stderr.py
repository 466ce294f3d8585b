"""Redirect the standard error of native code to a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr


@contextmanager
def redirect_native_stderr(file: str) -> Iterator[None]:
    """Append the standard error of this process, including native code, to a file.

    Args:
        file: path of the file.
    """
    with open(file, "a", encoding="utf-8") as log:
        saved = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            # The runtime's Python bindings print to sys.stderr.
            with redirect_stderr(log):
                yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
