"""Read the folder in a payload: files, one after the other, and a description at the end.

The description is a JSON object, written backwards from the end of the bytes. It lists nodes:
children before their folder, the root last. Source: ``runtime/inmemoryfs`` of the delegate. Its
``unflatten_directory_contents`` does not check the numbers and names that it reads, and writes
files; this module checks them, and writes none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from backends.coreml.payload.program import CoremlPayloadError

FILE = 0
FOLDER = 1

# Bytes of the description that are searched for its end: a real one has about 1 kB.
_LONGEST = 1 << 20
_MOST_NODES = 10_000


def read_folder(data: bytes) -> dict[str, memoryview]:
    """Return the files of a payload by path below the root folder; nothing is copied.

    Raises:
        CoremlPayloadError: the bytes are not such a folder.
    """
    nodes = _read_nodes(data)
    if not nodes:
        raise CoremlPayloadError("its folder has no nodes")
    files: dict[str, memoryview] = {}
    _collect(data, nodes, len(nodes) - 1, "", files)
    return files


def _read_nodes(data: bytes) -> list[Mapping[str, Any]]:
    text = bytes(data[-_LONGEST:])[::-1].lstrip(b"\0")
    if not text.startswith(b"{"):
        raise CoremlPayloadError("its bytes do not end in the description of a folder")
    try:
        # Latin-1 decodes any bytes; the names that matter are ASCII.
        found, _ = json.JSONDecoder().raw_decode(text.decode("latin-1"))
    except (ValueError, RecursionError) as error:
        raise CoremlPayloadError(f"the description of its folder is no JSON: {error}") from None
    nodes = found.get("nodes") if isinstance(found, dict) else None
    if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
        raise CoremlPayloadError("the description of its folder lists no nodes")
    if len(nodes) > _MOST_NODES:
        raise CoremlPayloadError(f"its folder has {len(nodes)} nodes, at most {_MOST_NODES}")
    return nodes


def _collect(
    data: bytes,
    nodes: list[Mapping[str, Any]],
    at: int,
    path: str,
    files: dict[str, memoryview],
    depth: int = 0,
) -> None:
    """Add the files of a node and of those below it."""
    node = nodes[at]
    kind = node.get("kind")
    if kind == FILE:
        if path in files or len(files) >= _MOST_NODES:
            raise CoremlPayloadError(f"its folder has several files {path!r}")
        files[path] = _slice(data, node, path)
    elif kind == FOLDER:
        if depth > 16:
            raise CoremlPayloadError(f"folder {path!r} is nested too deeply")
        for name, child in _children(node, at, path):
            _collect(data, nodes, child, f"{path}/{name}" if path else name, files, depth + 1)
    else:
        raise CoremlPayloadError(f"node {at} of its folder has kind {kind!r}")


def _children(node: Mapping[str, Any], at: int, path: str) -> Iterator[tuple[str, int]]:
    children = node.get("children")
    if not isinstance(children, dict):
        raise CoremlPayloadError(f"folder {path!r} lists no children")
    for name, child in children.items():
        if not isinstance(child, int) or not 0 <= child < at:
            raise CoremlPayloadError(
                f"folder {path!r}: child {name[:80]!r} is node {child!r}, expected 0 to {at - 1}"
            )
        yield name, child


def _slice(data: bytes, node: Mapping[str, Any], path: str) -> memoryview:
    region = node.get("dataRegion")
    region = region if isinstance(region, dict) else {}
    offset, size = region.get("offset"), region.get("size")
    if not isinstance(offset, int) or not isinstance(size, int) or offset < 0 or size < 0:
        raise CoremlPayloadError(f"file {path!r} has no valid place in the payload")
    if offset + size > len(data):
        raise CoremlPayloadError(
            f"file {path!r} ends at byte {offset + size}, the payload has {len(data)} bytes"
        )
    return memoryview(data)[offset : offset + size]
