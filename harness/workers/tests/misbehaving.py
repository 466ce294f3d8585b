"""What a child is asked to do in test_child.py; the first word of a request says what."""

from __future__ import annotations

import ctypes
import os
import signal

from harness.errors import ProgramError


def answer(request: bytes) -> bytes:
    word, _, rest = request.partition(b" ")
    match word:
        case b"echo":
            return rest
        case b"segfault":
            ctypes.string_at(0)
        case b"abort":
            os.abort()
        case b"exit":
            os._exit(int(rest))
        case b"hang":
            # PyDLL keeps the interpreter's lock, as native code does that knows nothing of it.
            ctypes.PyDLL(None).sleep(int(rest))
        case b"refuse":
            raise ProgramError(rest.decode())
        case b"raise":
            raise ValueError(rest.decode())
        case b"allocate":
            bytearray(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        case b"take":
            size = int(rest) << 20
            bytearray(size)[::4096] = b"x" * len(range(0, size, 4096))
        case b"kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case b"print":
            print("not an answer", flush=True)
    return b"still here"
