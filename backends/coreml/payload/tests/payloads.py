"""Real payloads, and functions that take them apart, change them and put them together again."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

import torch
from coremltools.proto import Model_pb2

from backends.coreml.payload.folder import read_folder
from harness import Case, Tester
from harness.backend_api import DelegatePayload, Program
from harness.pipeline.route import lower

MODEL = "model.mlpackage/Data/com.apple.CoreML/model.mlmodel"
WEIGHTS = "model.mlpackage/Data/com.apple.CoreML/weights/weight.bin"


class Stateful(torch.nn.Module):
    """A linear layer, a mutable buffer and outputs of three dtypes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(32, 16)
        self.register_buffer("total", torch.zeros(4, 16))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        y = torch.relu(self.linear(x))
        self.total.add_(y)
        return y + self.total, y.sum() > 0, (x * 2).to(torch.int64)


CASES = {
    "stateful": ("fp32", Stateful, (4, 32)),
    "int4": ("int4", lambda: torch.nn.Linear(64, 48), (4, 64)),
    "lut4": ("lut4", lambda: torch.nn.Linear(64, 48), (4, 64)),
    "fp16": ("fp16", lambda: torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.Sigmoid()),
             (4, 32)),
}  # fmt: skip


@functools.cache
def lowered(name: str) -> Tester:
    """A lowered case of the table."""
    recipe, module, shape = CASES[name]
    case = Case(f"payload/{name}", lambda: (module(), (torch.randn(shape),)))  # type: ignore[operator]
    tester = Tester(case, f"coreml:{recipe}")
    lower(tester)
    return tester


def real(name: str) -> DelegatePayload:
    """The payload of a case of the table."""
    (payload,) = Program(lowered(name).program).delegates
    return payload


def pack(files: Mapping[str, bytes | memoryview]) -> bytes:
    """Put files together as a payload."""
    data = bytearray()
    nodes: list[dict[str, Any]] = []

    def add(tree: Mapping[str, Any], name: str) -> int:
        children = {}
        for key, child in tree.items():
            if isinstance(child, dict):
                children[key] = add(child, key)
                continue
            region = {"offset": len(data), "size": len(child)}
            data.extend(child)
            children[key] = len(nodes)
            nodes.append({"kind": 0, "name": key, "dataRegion": region, "children": {}})
        nodes.append({"kind": 1, "name": name, "children": children})
        return len(nodes) - 1

    tree: dict[str, Any] = {}
    for path, content in files.items():
        *folders, name = path.split("/")
        at = tree
        for folder in folders:
            at = at.setdefault(folder, {})
        at[name] = content
    add(tree, "root")
    return bytes(data) + json.dumps({"nodes": nodes}).encode()[::-1]


def edit_files(data: bytes, edit: Callable[[dict[str, bytes]], object]) -> bytes:
    """Return a payload whose files are changed by a function."""
    files = {path: bytes(content) for path, content in read_folder(data).items()}
    edit(files)
    return pack(files)


def edit_model(data: bytes, edit: Callable[[Any], object]) -> bytes:
    """Return a payload whose protobuf message is changed by a function."""

    def change(files: dict[str, bytes]) -> None:
        message = Model_pb2.Model.FromString(files[MODEL])
        edit(message)
        files[MODEL] = message.SerializeToString()

    return edit_files(data, change)


def block_of(message: Any) -> Any:
    """The main block of a model's message."""
    function = message.mlProgram.functions["main"]
    return function.block_specializations[function.opset]


def operation_of(message: Any, kind: str) -> Any:
    """The first operation of a kind in a model's message."""
    return next(each for each in block_of(message).operations if each.type == kind)


def constant_of(message: Any, operation: Any, key: str) -> Any:
    """The message of the constant that an operation reads as an input."""
    (binding,) = operation.inputs[key].arguments
    if binding.WhichOneof("binding") == "value":
        return binding.value
    return next(
        each.attributes["val"]
        for each in block_of(message).operations
        if each.outputs and each.outputs[0].name == binding.name
    )
