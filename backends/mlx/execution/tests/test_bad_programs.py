"""Maps, counts, chains and declarations: programs load, or are refused before they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from backends.mlx.payload import reader
from backends.mlx.payload.graph import PayloadError
from backends.mlx.payload.tests.payloads import (
    encode,
    graph,
    integer,
    mlx,
    sample,
    slot,
    tensor_meta,
    with_constant,
)


def with_buffer(meta: Any, *slots: mlx.SlotVariant) -> Any:
    """A graph whose tensor slot 0 is a buffer."""
    return graph(
        num_mutable_buffer_tensors=1,
        tensor_meta=meta,
        mutable_buffer_map=list(slots or (slot(0),)),
    )


def add(a: int = 0, b: int = 1, out: int = 2) -> mlx.AddNode:
    return mlx.AddNode(mlx.Tid(a), mlx.Tid(b), mlx.Tid(out))


def branch(then: int, otherwise: int) -> mlx.IfNode:
    return mlx.IfNode(integer(1), then, otherwise)


def input_of(meta: mlx.TensorMeta) -> Any:
    return graph(num_input_tensors=1, tensor_meta=[meta], input_map=[slot(0)])


def ladder(levels: int) -> Any:
    """Chains that run one another, the first at the top."""
    return graph(*([branch(n + 1, n + 1)] for n in range(levels - 1)), [])


def doubling(levels: int) -> Any:
    """Every chain runs the next one twice."""
    return graph(*([branch(n + 1, n + 1)] * 2 for n in range(levels)), [add()])


GOOD: dict[str, Callable[[], Any]] = {
    "no version": lambda: graph(version=""),
    "version 0": lambda: graph(version="0"),
    "version as stoi reads it": lambda: graph(version=" +001.5 beta"),
    "a constant": with_constant,
    "a constant that init replaces": lambda: with_constant([], [add(out=0)], init_chain_idx=1),
    "a buffer": lambda: with_buffer([tensor_meta(4, 2)]),
    "a buffer of 4 GiB": lambda: with_buffer([tensor_meta(2**15, 2**15)]),
    "a scalar buffer": lambda: with_buffer([tensor_meta()]),
    "a dynamic input": lambda: input_of(tensor_meta((0, -1), (2, 2))),
    "an input of a type that MLX lacks": lambda: input_of(tensor_meta(scalar_type=7)),
    "chains in chains": lambda: graph(
        [branch(1, 2), branch(2, 1)], [branch(2, 2)], [add()], [branch(1, 0)]
    ),
    "64 levels of chains": lambda: ladder(64),
    "a million instructions": lambda: doubling(18),
}

# Name of the defect: the graph, and the text of the error.
BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "a newer version": (lambda: graph(version="2"), "version is 2, the runtime supports 1 at most"),
    "version text": (lambda: graph(version="one"), "version is 'one', expected an integer"),
    "version range": (lambda: graph(version="9" * 99), "version is '9999.*, expected an integer"),
    "version below": (lambda: graph(version="-3000000000"), "expected an integer"),
    "tensor slots": (
        lambda: graph(num_temp_tensors=10**6, num_input_tensors=1),
        "1000001 tensor slots, the runtime allows 1000000",
    ),
    "value slots": (lambda: graph(num_values=2**32 - 1), "4294967295 value slots"),
    "main chain": (lambda: graph(main_chain_idx=1), "main chain is 1, there are 1 chains"),
    "init chain": (lambda: graph(init_chain_idx=3), "init chain is 3, there are 1 chains"),
    "constant written": (
        lambda: with_constant(add(out=0)),
        r"chain 0, .* \(AddNode\): writes tensor slot 0, a constant; only the init chain may",
    ),
    "constant written in a branch": (
        lambda: with_constant([branch(1, 1)], [add(), add(out=0)], init_chain_idx=1),
        "chain 1, instruction 1 .* a constant; only the init chain may",
    ),
    "constant sliced into": (
        lambda: with_constant([sample("ScanNode", sliced=[mlx.Tid(0), mlx.Tid(1)])], []),
        r"\(ScanNode\): writes tensor slot 0, a constant",
    ),
    "constant updated by init": (
        lambda: with_constant(
            [], [sample("IndexCopyNode", dst=mlx.Tid(0), out=mlx.Tid(1))], init_chain_idx=1
        ),
        r"\(IndexCopyNode\): field dst is tensor slot 0, a constant",
    ),
    "chain range": (lambda: graph(branch(0, 1)), r"\(IfNode\): runs chain 1, there are 1"),
    "chain below": (
        lambda: graph(sample("ScanNode", body_chain_idx=-1)),
        r"\(ScanNode\): runs chain -1",
    ),
    "a chain in itself": (lambda: graph(branch(0, 0)), "chain 0 runs itself"),
    "chains in each other": (
        lambda: graph([], [branch(0, 2)], [sample("ScanNode", body_chain_idx=1)]),
        "chain 1 runs itself",
    ),
    "65 levels of chains": (lambda: ladder(65), "chain 0 nests chains more than 64 levels"),
    "thousands of levels": (lambda: ladder(5_000), "nests chains more than 64 levels"),
    "instructions": (lambda: doubling(20), "runs more than 1000000 instructions"),
    "input slot": (
        lambda: graph(input_map=[slot(1), slot(64)]),
        "input map, entry 1 refers to tensor slot 64, there are 64",
    ),
    "input value": (
        lambda: graph(input_map=[slot(64, 1)]),
        "input map, entry 0 refers to value slot 64, there are 64",
    ),
    "input kind": (
        lambda: graph(input_map=[slot(0, 2)]),
        "input map, entry 0: the runtime passes no float there",
    ),
    "input constant": (
        lambda: with_constant(input_map=[slot(0)]),
        "input map, entry 0 refers to tensor slot 0, a constant",
    ),
    "output slot": (lambda: graph(output_map=[slot(99)]), "output map, entry 0 refers to tensor"),
    "output kind": (lambda: graph(output_map=[slot(0, 3)]), "the runtime passes no bool there"),
    "slot type": (
        lambda: graph(output_map=[slot(0), slot(0, 4)]),
        r"output_map\[1\]: slot type is 4, there are 4",
    ),
    "unnamed constant": (lambda: with_constant(name=None), "constant 0 has no name"),
    "undeclared constant": (
        lambda: with_constant(meta=[]),
        r"constant 0 \('w'\) has no declared shape",
    ),
    "dynamic constant": (
        lambda: with_constant(meta=[tensor_meta(2, (3, 3))]),
        r"constant 0 \('w'\) has the dynamic dimension 1 \(3\)",
    ),
    "constant type": (
        lambda: with_constant(meta=[tensor_meta(scalar_type=7)]),
        r"constant 0 \('w'\) has scalar type 7, which does not exist in MLX",
    ),
    "rank": (
        lambda: graph(tensor_meta=[tensor_meta(*[1] * 17)]),
        r"tensor_meta\[0\]: 17 dimensions, the runtime allows 16",
    ),
    "dimension": (
        lambda: graph(tensor_meta=[tensor_meta(), tensor_meta(1, -2)]),
        r"tensor_meta\[1\].shape\[1\]: dimension is -2",
    ),
    "lower bound": (
        lambda: graph(tensor_meta=[tensor_meta((-1, 5))]),
        "with invalid bounds -1 to 5",
    ),
    "bounds": (lambda: graph(tensor_meta=[tensor_meta((4, 3))]), "with invalid bounds 4 to 3"),
    "declared type": (
        lambda: graph(tensor_meta=[tensor_meta(scalar_type=31)]),
        r"tensor_meta\[0\]: scalar type is 31, there are 31",
    ),
    "declared type below": (
        lambda: graph(tensor_meta=[tensor_meta(scalar_type=-1)]),
        "scalar type is -1",
    ),
    "missing declaration": (lambda: graph(tensor_meta=[None]), r"tensor_meta\[0\]: "),
    "buffer kind": (
        lambda: with_buffer([tensor_meta(1)], slot(0, 1)),
        "buffer map, entry 0: the runtime passes no int there",
    ),
    "buffer slot": (
        lambda: with_buffer([tensor_meta(1)], slot(0), slot(65)),
        "buffer map, entry 1 refers to tensor slot 65",
    ),
    "buffer role": (
        lambda: with_buffer([tensor_meta(1)], slot(1)),
        "buffer map, entry 0 refers to tensor slot 1, whose role is temporary",
    ),
    "undeclared buffer": (lambda: with_buffer([]), "entry 0 has no declared shape"),
    "dynamic buffer": (
        lambda: with_buffer([tensor_meta((0, 4))]),
        r"entry 0 has the dynamic dimension 0 \(0..4\)",
    ),
    "empty buffer": (lambda: with_buffer([tensor_meta(2, 0)]), "has a dimension of size 0"),
    "buffer type": (lambda: with_buffer([tensor_meta(scalar_type=30)]), "has scalar type 30"),
    "large buffer": (
        lambda: with_buffer([tensor_meta(2**15, 2**15 + 1)]),
        "has 4295098368 bytes, the runtime allows 4294967296",
    ),
    "huge buffer": (lambda: with_buffer([tensor_meta(*[2**31 - 1] * 16)]), "the runtime allows"),
}


@pytest.mark.parametrize("name", GOOD)
def test_programs_that_the_runtime_accepts_load(name: str) -> None:
    reader.load(encode(GOOD[name]()))


@pytest.mark.parametrize("name", BAD)
def test_programs_that_the_runtime_refuses_raise_a_one_line_error(name: str) -> None:
    make, message = BAD[name]
    with pytest.raises(PayloadError, match=message) as caught:
        reader.load(encode(make()))
    line = str(caught.value)
    assert line.startswith("MLX payload: ")
    assert "\n" not in line
    assert len(line) < 300
