"""The folder in a payload is read as the delegate's extension reads it, and checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from backends.coreml.payload.folder import read_folder
from backends.coreml.payload.program import CoremlPayloadError
from backends.coreml.payload.tests.payloads import pack, real


def test_a_real_payload_is_read_as_the_extension_unpacks_it(tmp_path: Path) -> None:
    from executorch.backends.apple.coreml import executorchcoreml

    data = real("stateful").data
    assert executorchcoreml.unflatten_directory_contents(data, str(tmp_path))
    written = {
        str(path.relative_to(tmp_path)): path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    found = {path: bytes(content) for path, content in read_folder(data).items()}
    assert {path.partition("/")[2] for path in written} == set(found)
    assert all(written[f"lowered_module/{path}"] == found[path] for path in found)


def test_packed_files_are_read_again() -> None:
    files = {"metadata.json": b"{}", "a/b/c": b"\0\1\2", "a/d": b""}
    assert {path: bytes(content) for path, content in read_folder(pack(files)).items()} == files


def _folder(*nodes: Any, data: bytes = b"") -> bytes:
    return data + json.dumps({"nodes": nodes}).encode()[::-1]


def _file(offset: Any = 0, size: Any = 0) -> dict[str, Any]:
    return {"kind": 0, "name": "f", "dataRegion": {"offset": offset, "size": size}}


def _of(children: Any) -> dict[str, Any]:
    return {"kind": 1, "name": "d", "children": children}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "do not end in the description"),
        (b"\0" * 100, "do not end in the description"),
        (b"garbage", "do not end in the description"),
        (b"}'a'{", "is no JSON"),
        (b"}" + b"[" * 100_000 + b':"a"{', "is no JSON"),
        (json.dumps({"nodes": 3}).encode()[::-1], "lists no nodes"),
        (_folder(), "has no nodes"),
        (_folder(*[_file()] * 10_001), "at most 10000"),
        (_folder({"kind": 7}), "has kind 7"),
        (_folder(_file(5, 1000), _of({"f": 0})), "ends at byte 1005"),
        (_folder(_file(-5, 10), _of({"f": 0})), "has no valid place"),
        (_folder(_file("0", 10), _of({"f": 0})), "has no valid place"),
        (_folder(_of({"itself": 0})), "expected 0 to -1"),
        (_folder(_of({"later": 1}), _of({"earlier": 0})), "expected 0 to -1"),
        (_folder(_file(), _of({"f": -1})), "is node -1"),
        (_folder(_file(), _of({"f": 1e300})), "is node 1e"),
        (_folder(_file(), _of([0])), "lists no children"),
    ],
)
def test_a_malformed_folder_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(CoremlPayloadError, match=message):
        read_folder(data)


def test_a_shared_node_cannot_grow_the_folder_without_limit() -> None:
    """Each folder holds the one before it twice: 2**30 files of 30 nodes."""
    nodes: list[Any] = [_file()]
    for _ in range(30):
        nodes.append(_of({"a": len(nodes) - 1, "b": len(nodes) - 1}))
    with pytest.raises(CoremlPayloadError, match=r"nested too deeply|several files"):
        read_folder(_folder(*nodes))


def test_a_path_that_leaves_the_folder_is_only_a_name() -> None:
    files = read_folder(_folder(_file(0, 2), _of({"../../etc/x": 0}), data=b"ab"))
    assert {path: bytes(content) for path, content in files.items()} == {"../../etc/x": b"ab"}
