"""Remember the payloads that this process generated or cached: only their shaders run in it."""

from __future__ import annotations

import hashlib

from executorch.exir.backend.backend_details import PreprocessResult

from harness import DelegatePayload

_OWN: set[bytes] = set()


def remember(result: PreprocessResult) -> None:
    """Note the code of a payload, as ``MetalBackend.preprocess`` hands it on."""
    if (data := result.data_store_output) is not None:
        library = data.pte_data[_library(result.processed_bytes)]
        _OWN.add(hashlib.sha256(data.buffers[library.buffer_index]).digest())


def is_own(payload: DelegatePayload) -> bool:
    """Whether the code that a payload names was generated here."""
    library = payload.named_data.get(_library(payload.data))
    return library is not None and hashlib.sha256(library).digest() in _OWN


def _library(named: bytes | memoryview) -> str:
    """The name of the code: the first of the two that a payload is."""
    return bytes(named).decode("utf-8", "replace").split("\n")[0]
