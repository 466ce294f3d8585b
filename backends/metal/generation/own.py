"""Which payloads this process generated: only their shaders run in it."""

from __future__ import annotations

import hashlib

from harness import DelegatePayload

_OWN: set[bytes] = set()


def remember(library: bytes) -> None:
    """Note a payload's code, as :func:`backends.metal.generation.generated.encode` wrote it."""
    _OWN.add(hashlib.sha256(library).digest())


def is_own(payload: DelegatePayload) -> bool:
    """Whether the code that a payload names was generated here."""
    library = payload.named_data.get(payload.data.decode("utf-8", "replace").split("\n")[0])
    return library is not None and hashlib.sha256(library).digest() in _OWN
