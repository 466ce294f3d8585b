"""Cache generated code in the user's cache folder, beside the kernels.

Inductor takes nine tenths of the time to lower a program for Metal, and its output is
deterministic. An entry is the result of ``preprocess`` for one partition (``identity``) in one
environment (``surroundings``). A damaged or read-only folder is not an error: unreadable entries
count as missing, and nothing is written. ``--no-speed`` does not use the cache.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from executorch.exir.backend.backend_details import PreprocessResult
from torch.export import ExportedProgram

from backends.metal.generation import surroundings
from backends.metal.generation.identity import identity
from harness.cache_folders import cache_folder
from harness.record.folder import write_atomically
from harness.vendors.executorch import NamedDataStore

_LARGEST = 16 << 20  # bytes of a payload: do not copy the weights of a model to the cache
_UNUSED_SECONDS = 30 * 86400.0  # entries of another environment are deleted after this time


class Blob(msgspec.Struct, frozen=True):
    """A named blob of a payload."""

    name: str
    data: bytes
    alignment: int


class CachedPayload(msgspec.Struct, frozen=True):
    """A ``PreprocessResult`` of Metal: the delegate's bytes and the blobs that they name."""

    processed: bytes
    blobs: tuple[Blob, ...]


def make_key(program: ExportedProgram, specs: Sequence[Any]) -> str | None:
    """Return the cache key of a partition; None when its code cannot be identified.

    Args:
        program: the program that ``MetalBackend.preprocess`` gets.
        specs: the partitioner's compile specs.
    """
    digest = identity(program, specs) if surroundings.is_as_installed() else None
    return digest and hashlib.sha256(f"{digest} {surroundings.settings()}".encode()).hexdigest()


def load(key: str) -> PreprocessResult | None:
    """Load the entry of a key; None when it is missing or damaged."""
    folder = _folder()
    if folder is None:
        return None
    try:
        content = (folder / key).read_bytes()
        checksum, packed = content[:32], content[32:]
        if hashlib.sha256(packed).digest() != checksum:
            return None
        payload = msgspec.msgpack.decode(zlib.decompress(packed), type=CachedPayload)
    except (OSError, zlib.error, msgspec.DecodeError):
        return None
    store = NamedDataStore()
    for blob in payload.blobs:
        store.add_named_data(blob.name, blob.data, blob.alignment, None)
    return PreprocessResult(
        processed_bytes=payload.processed,
        debug_handle_map={},
        data_store_output=store.get_named_data_store_output(),
    )


def save(key: str, result: PreprocessResult) -> None:
    """Save a result, unless an entry cannot represent it or the folder is not writable."""
    payload = _make_payload(result)
    folder = _folder()
    if payload is None or folder is None:
        return
    packed = zlib.compress(msgspec.msgpack.encode(payload), 1)
    with contextlib.suppress(OSError):
        write_atomically(folder / key, hashlib.sha256(packed).digest() + packed)


def _make_payload(result: PreprocessResult) -> CachedPayload | None:
    data = result.data_store_output
    debug_info = result.debug_handle_map or result._delegate_info_meta
    if data is None or data.external_data or debug_info:
        return None
    blobs = []
    for name, entry in data.pte_data.items():
        content = data.buffers[entry.buffer_index]
        if not isinstance(content, bytes) or entry.tensor_layout is not None:
            return None
        blobs.append(Blob(name, content, entry.alignment))
    if sum(len(blob.data) for blob in blobs) > _LARGEST:
        return None
    return CachedPayload(result.processed_bytes, tuple(blobs))


@functools.cache
def _folder() -> Path | None:
    """Return the folder of this environment's entries; None when it is not writable."""
    everything = cache_folder("metal-generated")
    folder = everything / surroundings.digest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        for other in everything.iterdir():
            if time.time() - other.stat().st_mtime > _UNUSED_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
    except OSError:
        return None
    return folder
