"""Generated code, kept from process to process in the user's cache folder beside the kernels.

Inductor takes nine tenths of the time that a program takes to be lowered for Metal, and makes the
same of the same. An entry is taken for one partition (``identity``), in the same surroundings
(``surroundings``), and is what ``preprocess`` returned. Nothing that is wrong with the folder is an
error: what cannot be read is not there, and what cannot be written is not kept. ``--no-speed``
generates all of it again.
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

_LARGEST = 16 << 20  # bytes of a payload; of a model's weights there are copies enough
_UNUSED_SECONDS = 30 * 86400.0  # after which what was generated in other surroundings goes


class Blob(msgspec.Struct, frozen=True):
    """Data that a payload names."""

    name: str
    data: bytes
    alignment: int


class Payload(msgspec.Struct, frozen=True):
    """A ``PreprocessResult`` of Metal: what the delegate is given, and what that names."""

    processed: bytes
    blobs: tuple[Blob, ...]


def key(program: ExportedProgram, specs: Sequence[Any]) -> str | None:
    """The name of a partition's entry; None where its code cannot be told from other code.

    Args:
        program: what ``MetalBackend.preprocess`` gets.
        specs: the partitioner's.
    """
    known = identity(program, specs) if surroundings.is_as_installed() else None
    return known and hashlib.sha256(f"{known} {surroundings.settings()}".encode()).hexdigest()


def find(key: str) -> PreprocessResult | None:
    """What was kept under a key; None where there is nothing, or nothing whole."""
    folder = _folder()
    if folder is None:
        return None
    try:
        content = (folder / key).read_bytes()
        checksum, packed = content[:32], content[32:]
        if hashlib.sha256(packed).digest() != checksum:
            return None
        payload = msgspec.msgpack.decode(zlib.decompress(packed), type=Payload)
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


def keep(key: str, result: PreprocessResult) -> None:
    """Keep what was made, unless it has more than an entry can hold, or there is no place."""
    payload = _payload(result)
    folder = _folder()
    if payload is None or folder is None:
        return
    packed = zlib.compress(msgspec.msgpack.encode(payload), 1)
    with contextlib.suppress(OSError):
        write_atomically(folder / key, hashlib.sha256(packed).digest() + packed)


def _payload(result: PreprocessResult) -> Payload | None:
    data = result.data_store_output
    told = result.debug_handle_map or result._delegate_info_meta
    if data is None or data.external_data or told:
        return None
    blobs = []
    for name, entry in data.pte_data.items():
        content = data.buffers[entry.buffer_index]
        if not isinstance(content, bytes) or entry.tensor_layout is not None:
            return None
        blobs.append(Blob(name, content, entry.alignment))
    if sum(len(blob.data) for blob in blobs) > _LARGEST:
        return None
    return Payload(result.processed_bytes, tuple(blobs))


@functools.cache
def _folder() -> Path | None:
    """Where entries of these surroundings lie; None where nothing can be written."""
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
