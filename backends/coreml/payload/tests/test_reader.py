"""A payload gives a program, or one typed error."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from backends.coreml.execution.delegate import make_executor, make_handle
from backends.coreml.payload import reader
from backends.coreml.payload.payload_text import list_blobs, list_operations
from backends.coreml.payload.program import CoremlPayloadError, MilStateType
from backends.coreml.payload.tests.payloads import (
    CASES,
    MODEL,
    WEIGHTS,
    block_of,
    edit_files,
    edit_model,
    operation_of,
    pack,
    real,
)
from harness import ProgramError
from harness.backend_api import DelegatePayload


def test_a_real_program_is_read() -> None:
    program = reader.load(real("stateful").data, {})
    assert [feature.name for feature in program.inputs] == ["x"]
    assert [str(feature.dtype) for feature in program.outputs] == [
        "torch.float32",
        "torch.float32",
        "torch.int32",
    ]
    (state,) = program.states
    assert isinstance(state.type, MilStateType)
    assert str(state.type) == "state(fp16[4, 16])"
    kinds = {operation.kind for operation in program.function.body.walk()}
    assert {"linear", "relu", "read_state", "write_state", "cast"} <= kinds
    assert sorted(map(len, list_blobs(program))) == [64, 2048]


def test_the_listing_names_operations_states_and_constants() -> None:
    lines = list(list_operations(reader.load(real("stateful").data, {})))
    text = "\n".join(lines)
    assert "main of CoreML8, specification version 9" in lines[0]
    assert "state    total state(fp16[4, 16])" in text
    assert any(line.strip().startswith("linear ") and "fp32[16, 32]" in line for line in lines)
    assert any("dtype='fp16'" in line for line in lines)


def test_methods_that_share_weights_refer_to_named_data() -> None:
    payload = real("fp16")

    def share(files: dict[str, bytes]) -> None:
        names = json.loads(files["metadata.json"])
        methods = {"main": {key: names[key] for key in ("inputNames", "outputNames")}}
        files["metadata.json"] = json.dumps({"identifier": "x", "methods": methods}).encode()

    shared = edit_files(payload.data, share)
    reference = b"CMJR" + json.dumps({"key": "coreml_x", "functionName": "main"}).encode()
    found = reader.load(reference, {"coreml_x": shared})
    assert [*list_operations(found)] == [*list_operations(reader.load(payload.data, {}))]
    with pytest.raises(CoremlPayloadError, match="no named data 'coreml_x'"):
        reader.load(reference, {})
    other = b"CMJR" + json.dumps({"key": "coreml_x", "functionName": "prefill"}).encode()
    with pytest.raises(CoremlPayloadError, match="no method 'prefill'"):
        reader.load(other, {"coreml_x": shared})


def _drop(path: str) -> Callable[[dict[str, bytes]], object]:
    return lambda files: files.pop(path)


def _put(path: str, content: bytes) -> Callable[[dict[str, bytes]], object]:
    return lambda files: files.update({path: content})


MANIFEST = "model.mlpackage/Manifest.json"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_drop("metadata.json"), "no metadata.json"),
        (_put("metadata.json", b"[]"), "metadata.json is no JSON object"),
        (_put("metadata.json", b"{"), "metadata.json is no JSON"),
        (_put("metadata.json", b'{"inputNames": ["x"]}'), "no list outputNames"),
        (_put("metadata.json", b'{"inputNames": ["x", "x"], "outputNames": ["y"]}'), "twice"),
        (_put("metadata.json", b'{"inputNames": ["x"], "outputNames": []}'), "names no output"),
        (_put("metadata.json", b'{"inputNames": ["q"], "outputNames": ["y"]}'),
         "describes no input 'q'"),
        (_drop(MANIFEST), "no model.mlpackage/Manifest.json"),
        (_put(MANIFEST, b"{}"), "names no model"),
        (_put(MANIFEST, b'{"rootModelIdentifier": "a", "itemInfoEntries": {"a": {"path": "b"}}}'),
         "has no model.mlpackage/Data/b"),
        (_drop(MODEL), "has no model.mlpackage/Data/com.apple.CoreML/model.mlmodel"),
        (_put(MODEL, b"\xff" * 40), "no protobuf message"),
        (_drop(WEIGHTS), "which does not exist"),
        (_put(WEIGHTS, b"\0" * 64), "has version 0"),
        (lambda files: files.update({WEIGHTS: files[WEIGHTS][:300]}), "the data ends at byte"),
        (_put("model.mlmodelc/x", b""), "is compiled"),
    ],
)  # fmt: skip
def test_a_malformed_package_is_refused(
    edit: Callable[[dict[str, bytes]], object], message: str
) -> None:
    with pytest.raises(ProgramError, match=message):
        reader.load(edit_files(real("stateful").data, edit), {})


def _set_reference(kind: str, key: str, name: str) -> Callable[[Any], object]:
    def edit(message: Any) -> None:
        operation_of(message, kind).inputs[key].arguments[0].name = name

    return edit


def _first_type(message: Any, kind: str) -> Any:
    return operation_of(message, kind).outputs[0].type.tensorType


def _weight(message: Any) -> Any:
    return next(
        each.attributes["val"]
        for each in block_of(message).operations
        if each.type == "const" and each.attributes["val"].WhichOneof("value") == "blobFileValue"
    )


def _swap_operations(message: Any) -> None:
    operations = block_of(message).operations
    whole = list(operations)
    del operations[:]
    operations.extend(reversed(whole))


def _rename_output(message: Any) -> None:
    operation_of(message, "relu").outputs[0].name = "x"


def _nest(message: Any) -> None:
    block = operation_of(message, "relu").blocks.add()
    for _ in range(40):
        block = block.operations.add(type="cond").blocks.add()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda m: m.mlProgram.functions.pop("main"), "no function 'main'"),
        (lambda m: setattr(m.mlProgram.functions["main"], "opset", "CoreML1"), "no block for"),
        (_set_reference("relu", "x", "nowhere"), "'nowhere', which nothing before it defines"),
        (_set_reference("relu", "x", "total"), "input x is a state"),
        (_set_reference("read_state", "input", "x"), "input input is no state"),
        (_swap_operations, "which nothing before it defines"),
        (_rename_output, "defines 'x' a second time"),
        (_nest, "nested more than 32 deep"),
        (lambda m: operation_of(m, "relu").blocks.add(), "has 1 blocks, expected 0"),
        (lambda m: operation_of(m, "relu").inputs["x"].arguments.add(), "an empty binding"),
        (lambda m: block_of(m).outputs.__setitem__(0, "nowhere"), "returns 'nowhere'"),
        (lambda m: block_of(m).outputs.pop(), "the function has no output"),
        (lambda m: setattr(_first_type(m, "relu"), "rank", 7), "has rank 7 and 2 dimensions"),
        (lambda m: setattr(_first_type(m, "relu"), "dataType", 99), "unknown data type 99"),
        (lambda m: _first_type(m, "relu").dimensions[0].Clear(), "a dimension without a size"),
        (lambda m: setattr(_first_type(m, "relu").dimensions[0].constant, "size", 2**50),
         "too many elements"),
        (lambda m: operation_of(m, "relu").outputs[0].type.Clear(), "its type is no tensor"),
        (lambda m: setattr(_weight(m).blobFileValue, "offset", 7), "no position of a value"),
        (lambda m: setattr(_weight(m).blobFileValue, "offset", 2**40), "no position of a value"),
        (lambda m: setattr(_weight(m).blobFileValue, "fileName", "/etc/passwd"), "expected @model"),
        (lambda m: setattr(_weight(m).type.tensorType.dimensions[0].constant, "size", 15),
         "bytes, fp32"),
        (lambda m: m.description.input[0].type.Clear(), "is no array"),
        (lambda m: setattr(m.description.input[0].type.multiArrayType, "dataType", 65600 + 1),
         "unknown data type"),
        (lambda m: m.description.input[0].type.multiArrayType.shape.append(3),
         "has 3 dimensions in the description"),
        (lambda m: m.description.input.pop(), "describes no input"),
        (lambda m: m.description.output.pop(), "describes no output"),
        (lambda m: m.neuralNetwork.SetInParent(), "is a neuralNetwork"),
    ],
)  # fmt: skip
def test_an_inconsistent_program_is_refused(edit: Callable[[Any], object], message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        reader.load(edit_model(real("stateful").data, edit), {})


def _execute(name: str, data: bytes) -> list[torch.Tensor]:
    """Execute a payload in place of a real one."""
    payload = DelegatePayload("CoreMLBackend", data, {}, {})
    shape = CASES[name][2]
    dtype = torch.float16 if name == "fp16" else torch.float32
    outputs = {
        "stateful": [torch.zeros(4, 16), torch.zeros((), dtype=torch.bool),
                     torch.zeros(4, 32, dtype=torch.int64)],
    }.get(name, [torch.zeros(shape[0], 48 if shape[1] == 64 else 16, dtype=dtype)])  # fmt: skip
    make_handle(make_executor(payload))([torch.ones(shape, dtype=dtype), *outputs])
    return outputs


@pytest.mark.parametrize("name", CASES)
def test_any_bytes_give_results_or_one_typed_error(name: str) -> None:
    draw = random.Random(0)
    whole = real(name).data
    first = _execute(name, whole)
    assert any(bool(output.any()) for output in first)
    refused = 0
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        if draw.random() < 0.2:
            data = data[: draw.randrange(len(data))]
        if draw.random() < 0.1:
            data = data[draw.randrange(len(data)) :]
        try:
            _execute(name, bytes(data))
        except ProgramError:
            refused += 1
    assert refused > 30


@pytest.mark.parametrize("name", CASES)
def test_any_change_of_the_model_gives_results_or_one_typed_error(name: str) -> None:
    """The bytes of the message alone: they are a small part of the payload."""
    draw = random.Random(1)
    whole = real(name).data
    refused = 0
    for _ in range(300):

        def flip(files: dict[str, bytes]) -> None:
            data = bytearray(files[MODEL])
            for _ in range(draw.randint(1, 3)):
                data[draw.randrange(len(data))] = draw.randrange(256)
            files[MODEL] = bytes(data)

        try:
            _execute(name, edit_files(whole, flip))
        except ProgramError:
            refused += 1
    assert refused > 100


def test_an_empty_payload_is_refused() -> None:
    for data in (b"", b"CMJR", b"CMJR{}", pack({"a": b""})):
        with pytest.raises(CoremlPayloadError):
            reader.load(data, {})
