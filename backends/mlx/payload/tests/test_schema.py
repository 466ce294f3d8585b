"""The wheel's schema as data, and schemas that would be misread."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.mlx.codegen import GenerationError
from backends.mlx.payload import schema
from backends.mlx.tests.test_codegen import copy_of_wheel


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return copy_of_wheel(tmp_path)


def test_nodes_are_numbered_as_declared() -> None:
    found = schema.load()
    assert found.nodes[:4] == ("NoopNode", "IdCopyNode", "AddmmNode", "ItemIntNode")
    assert len(found.nodes) == len(set(found.nodes)) > 130


def test_a_union_takes_two_places_and_null_is_no_default() -> None:
    tables = schema.load().tables
    (op,) = tables["Instruction"]
    assert (op.slot, op.required, str(op)) == (1, True, "OpNode")
    attend = {field.name: field.default for field in tables["UpdateAndAttendNode"]}
    assert attend["layer_id"] is None
    assert attend["scale"] is None
    dims = {field.name: field.default for field in tables["ShapeDim"]}
    assert dims == {"value": -1, "min_value": 0, "max_value": -1}
    (_, slot_type) = tables["SlotVariant"]
    assert slot_type.default == schema.load().enums["SlotType"][1]["TensorSlot"] == 0


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("union OpNode {", "union Other {", "Instruction.op has the unknown type OpNode"),
        (
            "    NoopNode,\n",
            "    NopeNode,\n",
            "union OpNode has members that are no tables: NopeNode",
        ),
        ("axis: int32;", "axis: Axis;", "ExpandDimsNode.axis has the unknown type Axis"),
        ("group_size: int32;", "group_size: int32 = x;", "group_size has the default 'x'"),
        ("keepdims: bool = false;", "keepdims: bool = no;", "keepdims has the default 'no'"),
        ("idx: uint32;", "idx: IntOrVid;", "struct field Tid.idx is no scalar but a"),
        ("num_values: uint32;", "", "MLXGraph.num_values is missing, expected uint32"),
        ("num_values: uint32;", "num_values: int32;", "num_values is int32, expected uint32"),
        ("value: int32 = -1;", "value: int64 = -1;", "ShapeDim.value is int64, expected int32"),
        ("literal: int64;", "literal: int64; of: IntOrVid;", "table IntOrVid contains itself"),
        ("op: OpNode (required);", "op: [OpNode];", "Instruction.op is a vector of unions"),
    ],
)
def test_a_schema_that_would_be_misread_is_refused(
    wheel: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str, message: str
) -> None:
    text = (wheel / "schema.fbs").read_text()
    assert before in text
    (wheel / "schema.fbs").write_text(text.replace(before, after, 1))
    monkeypatch.setattr(schema, "wheel_folder", lambda: wheel.parent)
    with pytest.raises(GenerationError, match=message) as caught:
        schema.load.__wrapped__()
    assert str(caught.value).startswith("executorch's schema.fbs is not supported: ")


def test_a_missing_schema_is_reported(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (wheel / "schema.fbs").unlink()
    monkeypatch.setattr(schema, "wheel_folder", lambda: wheel.parent)
    with pytest.raises(GenerationError, match=r"schema.fbs cannot be read"):
        schema.load.__wrapped__()
