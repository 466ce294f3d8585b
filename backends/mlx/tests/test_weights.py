"""The lowered program of mxfp8 and nvfp4 is checked for its required contents."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest
import torch

from backends.mlx.payload import reader
from backends.mlx.payload.graph import MlxGraph, Node
from backends.mlx.quantization import MlxWeightFormat, mxfp8, nvfp4
from backends.mlx.weights import count_expected_instructions, find_problems, read_encodings, verify
from harness import Case, Tester
from harness.backend_api import Program
from harness.pipeline.route import lower

pytestmark = pytest.mark.filterwarnings("ignore")  # vendors' own

FORMATS = {"mxfp8": mxfp8, "nvfp4": nvfp4}


@cache
def lowered(name: str) -> Tester:
    def build() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
        layers = torch.nn.Embedding(48, 64), torch.nn.Linear(64, 32), torch.nn.Linear(32, 16)
        return torch.nn.Sequential(*layers), (torch.randint(0, 48, (3,)),)

    tester = Tester(Case("layers", build), f"mlx:{name}")
    lower(tester)
    return tester


def graph(name: str) -> MlxGraph:
    (delegate,) = Program(lowered(name).program).delegates
    return reader.load(delegate.data)


@pytest.mark.parametrize("name", FORMATS)
def test_lowered_weights_are_expected(name: str) -> None:
    tester = lowered(name)
    assert count_expected_instructions(tester.exported) == {
        "QuantizedMatmulNode": 2,
        "DequantizeNode": 1,
    }
    assert verify(FORMATS[name], tester.serialized) is None


@pytest.mark.parametrize("name", FORMATS)
def test_decoded_encodings_equal_the_exported_weights(name: str) -> None:
    tester, made = lowered(name), FORMATS[name]
    found = {one.parameter: one for one in read_encodings(made, tester.serialized)}
    assert sorted(found) == ["1.weight", "2.weight"]
    graph = tester.reference_module
    state = dict(graph.named_buffers()) | dict(graph.named_parameters())
    for parameter, one in found.items():
        path = parameter.replace("weight", "parametrizations.weight.original")
        codes, scales = (state[f"{path}{place}"].contiguous() for place in (0, 1))
        data = codes.view(torch.uint8)
        if name == "nvfp4":  # two codes a byte, the lower one first
            data = torch.stack([data & 15, data >> 4], -1)
        again = type(one).of(
            parameter, made.element, made.block, 64 if parameter[0] == "1" else 32,
            data.numpy().tobytes(), scales.view(torch.uint8).numpy().tobytes(),
        )  # fmt: skip
        assert one == again


def _edited(whole: MlxGraph, kind: str, edit: Callable[[Node], list[Node]]) -> MlxGraph:
    """The graph with the first instruction of a kind replaced."""
    chain = [*whole.chains[whole.main]]
    at = next(i for i, node in enumerate(chain) if node.kind == kind)
    chain[at : at + 1] = edit(chain[at])
    chains = [*whole.chains]
    chains[whole.main] = tuple(chain)
    return dataclasses.replace(whole, chains=tuple(chains))


def _with(**fields: object) -> Callable[[Node], list[Node]]:
    return lambda node: [Node(**{**vars(node), **fields})]


@pytest.mark.parametrize(
    ("kind", "edit", "problem"),
    [
        ("QuantizedMatmulNode", _with(mode="nvfp4"), "QuantizedMatmulNode has mode nvfp4"),
        ("QuantizedMatmulNode", _with(group_size=16), "8 bits in groups of 16; expected mxfp8"),
        ("DequantizeNode", _with(bits=4), "DequantizeNode has mode mxfp8, 4 bits"),
        ("QuantizedMatmulNode", lambda node: [], "1 QuantizedMatmulNode, expected 2"),
        ("DequantizeNode", lambda node: [node, node], "2 DequantizeNode, expected 1"),
    ],
)
def test_each_requirement_can_fail(
    kind: str, edit: Callable[[Node], list[Node]], problem: str
) -> None:
    whole, wanted = graph("mxfp8"), count_expected_instructions(lowered("mxfp8").exported)
    assert list(find_problems([whole], mxfp8, wanted)) == []
    found = list(find_problems([_edited(whole, kind, edit)], mxfp8, wanted))
    assert any(problem in one for one in found), found


def test_a_module_that_was_not_quantized_is_detected() -> None:
    made: MlxWeightFormat = mxfp8
    wanted: Counter[str] = Counter()
    assert list(find_problems([graph("mxfp8")], made, wanted)) == [
        "2 QuantizedMatmulNode, expected 0",
        "1 DequantizeNode, expected 0",
    ]
