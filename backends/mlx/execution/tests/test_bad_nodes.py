"""Single instructions: slots that do not exist, and fields that their node type does not allow."""

from __future__ import annotations

from typing import Any

import pytest

from backends.mlx.payload import checks, reader
from backends.mlx.payload.graph import PayloadError
from backends.mlx.payload.tests.payloads import encode, graph, integer, mlx, nodes, sample

Bad = tuple[str, dict[str, Any], str]


def bad(kind: str, message: str, **fields: Any) -> Bad:
    return kind, fields, message


ONE, TWO = [mlx.Tid(1)], [mlx.Tid(1), mlx.Tid(2)]

SLOTS = [
    bad("AddNode", "field out refers to tensor slot 64, there are 64", out=mlx.Tid(64)),
    bad("AddmmNode", "field bias refers to tensor slot 99", bias=mlx.Tid(99)),
    bad("StackNode", "field tensors refers to tensor slot 99", tensors=[*ONE, mlx.Tid(99)]),
    bad(
        "TakeNode",
        "field index refers to tensor slot 99, there are 64",
        index=mlx.IntOrVidOrTid.from_tid(mlx.Tid(99)),
    ),
    bad(
        "TakeNode",
        "field index refers to value slot 98, there are 64",
        index=mlx.IntOrVidOrTid.from_vid(mlx.Vid(98)),
    ),
    bad("RopeNode", "tensor slot 77", offset=mlx.VidOrTid.from_tid(mlx.Tid(77))),
    bad("SymSizeNode", "field out refers to value slot 64, there are 64", out=mlx.Vid(64)),
    bad("RandomBitsNode", "field seed refers to value slot 65", seed=mlx.Vid(65)),
    bad("FullNode", "field shape refers to value slot 70", shape=[integer(mlx.Vid(70))]),
    bad("FullNode", "field v refers to value slot 71", v=mlx.FloatOrVid.from_vid(mlx.Vid(71))),
]

CHOICES = [
    ("TakeNode", "index", mlx.IntOrVidOrTid(kind=3), r"kind is 3, expected 0 \(literal\)"),
    ("TakeNode", "index", mlx.IntOrVidOrTid(kind=1), "selects the field vid, which is absent"),
    ("TakeNode", "index", mlx.IntOrVidOrTid(kind=2), "selects the field tid, which is absent"),
    ("ARangeNode", "stop", mlx.IntOrVid(is_vid=True), "selects the field vid, which is absent"),
    ("FullNode", "v", mlx.FloatOrVid(is_vid=True), "selects the field vid, which is absent"),
    ("RopeNode", "offset", mlx.VidOrTid(), "selects the field tid, which is absent"),
    ("RopeNode", "offset", mlx.VidOrTid(is_vid=True), "selects the field vid, which is absent"),
]

TYPES = [
    bad(
        "AsTypeNode",
        "field scalar_type is scalar type 7, which does not exist in MLX",
        scalar_type=7,
    ),
    bad("TriNode", "field scalar_type is scalar type -1", scalar_type=-1),
    bad("FullLikeNode", "field scalar_type is scalar type 27", scalar_type=27),
    bad("DequantizeNode", "field dtype is scalar type 24", dtype=24),
    bad("UpdateAndAttendNode", "field out_dtype is scalar type 29", out_dtype=29),
]

RULES = [
    *(
        bad(f"Conv{kind}Node", f"field {field} is {value}, expected 1 at least", **{field: value})
        for kind, field, value in (
            ("1D", "stride", 0),
            *(("2D", field, 0) for field in ("stride_h", "stride_w", "dilation_h", "dilation_w")),
            ("2D", "groups", 0),
            ("3D", "stride_d", -1),
            ("Transpose1D", "groups", -2),
            ("Transpose2D", "dilation_w", 0),
            ("Transpose3D", "stride_d", 0),
        )
    ),
    bad("ARangeNode", "field step is 0", step=integer(0)),
    bad("AsStridedNode", "fields shape, strides have 2, 1 elements", strides=[integer(1)]),
    bad("ConcatenateNode", "field tensors is empty", tensors=[]),
    bad("DequantizeNode", "mode affine with 4 bits in groups of 0", group_size=0),
    bad("DequantizeNode", "mode affine with 7 bits in groups of 32", bits=7),
    bad("DequantizeNode", "mode nvfp4 with 4 bits in groups of 32", mode="nvfp4"),
    bad("GatherNode", "fields indices, axes have 2, 1 elements", axes=[0]),
    bad("GatherQmmNode", "mode affine with 0 bits in groups of 32", bits=0),
    bad("MetalKernelNode", "field inputs is empty", inputs=[], input_names=[]),
    bad("MetalKernelNode", "fields inputs, input_names have 2, 1 elements", input_names=["a"]),
    bad("MetalKernelNode", "output_dtypes have 2, 2, 2, 1 elements", output_dtypes=[6]),
    bad("MetalKernelNode", "shapes_flat has 2 .* adds up to 1", output_shape_lengths=[1, 0]),
    bad("MetalKernelNode", "lengths has a negative element", output_shape_lengths=[3, -1]),
    bad("MetalKernelNode", "field grid has 1 elements, expected 3", grid=[integer(1)]),
    bad("MetalKernelNode", "field threadgroup has 0 elements", threadgroup=[]),
    bad("MetalKernelNode", "scalar type 7 does not exist in MLX", output_dtypes=[6, 7]),
    bad("MetalKernelNode", "values have 2, 1, 2 elements", template_arg_kinds=[0]),
    bad("MetalKernelNode", "kinds contains 3, expected 0 to 2", template_arg_kinds=[0, 3]),
    bad("MetalKernelNode", "scalar type 99 does not exist", template_arg_values=[0, 99]),
    bad(
        "PadNode",
        "field pad_width has 3 elements, expected pairs",
        pad_width=[integer(1)] * 3,
    ),
    bad("PadNode", "field mode is 'reflect', expected constant, edge", mode="reflect"),
    bad("QuantizedMatmulNode", "field mode is 'int4', expected affine, mxfp4", mode="int4"),
    bad("QuantizedMatmulNode", "mode mxfp8 with 4 bits in groups of 32", mode="mxfp8"),
    bad("RandomBitsNode", "field width is '3', expected 1, 2, 4", width=3),
    bad("RollNode", "field shift has 2 elements, fewer than the 3 of field axes", axes=[0, 1, 2]),
    bad("ScanNode", "field originals is empty", originals=[], sliced=[]),
    bad("ScanNode", "fields originals, sliced have 1, 2 elements", originals=ONE, sliced=TWO),
    bad("SliceNode", "field step is 0", step=0),
    bad("SliceUpdateNode", "field step is -1, expected 1 at least", step=-1),
    bad("SplitNode", "field sizes has 2 elements, field outs 1; expected", outs=ONE),
    bad("SplitNode", "field sizes is empty", sizes=[]),
    bad("SplitNode", "field sizes is 0, expected 1 at least", sizes=[integer(0)]),
    bad("StackNode", "field tensors is empty", tensors=[]),
    bad("UpdateAndAttendNode", "field layer_id is not set", layer_id=None),
    bad("UpdateAndAttendNode", "field scale is not set", scale=None),
]


@pytest.mark.parametrize(("kind", "fields", "message"), [*SLOTS, *TYPES, *RULES])
def test_the_instruction_and_its_field_are_named(
    kind: str, fields: dict[str, Any], message: str
) -> None:
    given = graph([], [sample("AddNode"), sample(kind, **fields)], [], main_chain_idx=2)
    for instruction in given.instruction_chains[1].instructions:
        for name in vars(instruction.op):
            if name.endswith("chain_idx"):
                setattr(instruction.op, name, 2)
    with pytest.raises(PayloadError, match=message) as caught:
        reader.load(encode(given))
    assert str(caught.value).startswith(f"MLX payload: chain 1, instruction 1 ({kind}): ")


@pytest.mark.parametrize(("kind", "field", "value", "message"), CHOICES)
def test_an_unknown_choice_is_refused(kind: str, field: str, value: Any, message: str) -> None:
    where = rf"^MLX payload: instruction_chains\[0\].instructions\[0\].op \({kind}\).{field}: "
    with pytest.raises(PayloadError, match=where + ".*" + message):
        reader.load(encode(graph(sample(kind, **{field: value}))))


def test_what_is_read_from_a_value_slot_is_left_to_execution() -> None:
    dynamic = integer(mlx.Vid(0))
    reader.load(
        encode(graph(sample("ARangeNode", step=dynamic), sample("SplitNode", sizes=[dynamic])))
    )


def test_every_node_type_with_a_rule_has_a_bad_sample() -> None:
    assert {kind for kind in nodes() if checks.get_rules(kind)} == {kind for kind, _, _ in RULES}
