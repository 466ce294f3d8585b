"""One lock for what is not thread-safe in a process, and its state kept from leaking.

torch's export, passes, modes and generators of random numbers use state of the process. A stage
holds the lock while it runs, execution aside, and leaves that state as it found it: nothing that a
cell does may change the next one.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from harness.execution.torch_settings import restore_settings
from harness.vendors.quiet import vendors_quiet
from harness.vendors.torch import _get_current_dispatch_mode_stack, _pop_mode

_LOCK = threading.RLock()


@contextmanager
def hold_process_lock() -> Iterator[None]:
    """Hold the lock, without the noise of vendors' imports; restore torch's settings, random
    numbers and modes after.

    A thread that holds it already may take it again.
    """
    with _LOCK, vendors_quiet(), torch.random.fork_rng(devices=[]), restore_settings():
        modes = len(_get_current_dispatch_mode_stack())
        try:
            yield
        except BaseException:
            if "torch._dynamo" in sys.modules:
                # It marks the code in which it failed, and refuses it from then on.
                torch.compiler.reset()
            raise
        finally:
            while len(_get_current_dispatch_mode_stack()) > modes:
                _pop_mode()
