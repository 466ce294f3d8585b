"""A lock for code that uses process-wide state of torch, and restoration of that state.

Export, passes, modes and random generators of torch use state of the process. Each stage except
execution holds the lock, and restores the state when it ends, so that no cell affects the next one.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from harness.execution.torch_settings import restore_settings
from harness.vendors.quiet import quiet_vendors
from harness.vendors.torch import _get_current_dispatch_mode_stack, _pop_mode

_LOCK = threading.RLock()


@contextmanager
def hold_process_lock() -> Iterator[None]:
    """Hold the lock for a block; then restore torch's settings, random numbers and modes.

    Messages of vendors' imports are hidden. The lock is reentrant.
    """
    with _LOCK, quiet_vendors(), torch.random.fork_rng(devices=[]), restore_settings():
        modes = len(_get_current_dispatch_mode_stack())
        try:
            yield
        except BaseException:
            if "torch._dynamo" in sys.modules:
                # Dynamo marks code in which it failed, and rejects it from then on.
                torch.compiler.reset()
            raise
        finally:
            while len(_get_current_dispatch_mode_stack()) > modes:
                _pop_mode()
