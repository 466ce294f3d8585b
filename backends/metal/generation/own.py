"""Remember the payloads that this process generated or cached: only their shaders run in it."""

from __future__ import annotations

import hashlib

from executorch.exir.backend.backend_details import PreprocessResult

from harness.backend_api import DelegatePayload

_OWN: set[bytes] = set()


def remember(result: PreprocessResult) -> None:
    """Record the code of a payload that ``MetalBackend.preprocess`` returns."""
    if (data := result.data_store_output) is not None:
        library = data.pte_data[_library(result.processed_bytes)]
        _OWN.add(hashlib.sha256(data.buffers[library.buffer_index]).digest())


def is_own(payload: DelegatePayload) -> bool:
    """Return whether this process generated or cached the code that a payload names."""
    library = payload.named_data.get(_library(payload.data))
    return library is not None and hashlib.sha256(library).digest() in _OWN


def _library(named: bytes | memoryview) -> str:
    """Return the name of the code, the first of the two names in a payload."""
    return bytes(named).decode("utf-8", "replace").split("\n")[0]
