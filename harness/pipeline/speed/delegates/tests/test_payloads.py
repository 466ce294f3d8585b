"""A payload is what upstream's compiler would have made of the graph, byte for byte."""

from __future__ import annotations

import dataclasses
import logging
import typing
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy
import pytest
from executorch.backends.xnnpack.serialization import xnnpack_graph_schema as graphs
from executorch.exir._serialize import _flatbuffer
from hypothesis import given, settings, strategies as st

from harness import Tester
from harness.pipeline.route import lower
from harness.pipeline.speed import install
from harness.pipeline.speed.delegates import flatc_schema, payloads
from harness.pipeline.speed.delegates.flatc_schema import NotSerializable
from harness.pipeline.speed.tests.graphs import NET


def _is_normal(number: float) -> bool:
    return not number or abs(number) >= 2**-126


_NUMBERS = {
    # Most fields are small, and many are what a field is when nothing is said.
    int: st.sampled_from([0, 1, 2, 255, 2**31 - 1]) | st.integers(0, 2**31 - 1),
    float: st.sampled_from([0.0, -0.0, 1, "-inf", "+inf", float("nan")])
    | st.floats(-1e38, 1e38, allow_subnormal=False).filter(_is_normal)
    | st.floats(-1e38, 1e38).map(lambda number: float(numpy.float32(number))).filter(_is_normal),
    str: st.text(st.characters(max_codepoint=0x2FFF), max_size=9),
}


def _values(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field by its type hint."""
    if typing.get_origin(hint) is typing.Union:
        given = typing.get_args(hint)
        found = st.one_of(*(_values(one) for one in given if one not in (str, type(None))))
        return st.none() | found if type(None) in given else found
    if typing.get_origin(hint) is list:
        return st.lists(_values(*typing.get_args(hint)), max_size=3)
    if dataclasses.is_dataclass(hint):
        return _filled(hint)
    if issubclass(hint, IntEnum):
        return st.sampled_from(list(hint))
    return _NUMBERS[hint]


@st.composite
def _filled(draw: Callable[[st.SearchStrategy[Any]], Any], kind: Any) -> Any:
    """A dataclass with a value in each field."""
    hints = typing.get_type_hints(kind)
    fields = {one.name: draw(_values(hints[one.name])) for one in dataclasses.fields(kind)}
    if "scale_bf16" in fields:  # the schema has it as deprecated
        fields["scale_bf16"] = None
    return kind(**fields)


def _written(graph: Any) -> bytes:
    found = payloads._load_schema()
    assert found is not None
    return payloads._PayloadWriter(found).write(graph)


@settings(max_examples=150, deadline=None)
@given(_filled(graphs.XNNGraph))
def test_it_is_what_the_compiler_writes(graph: Any) -> None:
    assert _written(graph) == payloads._upstream(graph)


def _with(number: Any) -> Any:
    node = graphs.XNode(graphs.XNNAbs(0, number, 0), 7, graphs.OutputMinMax(0.0, 6.0))
    return graphs.XNNGraph("0", [node], [], 1, [0], [1], [])


def _clamped(number: Any) -> Any:
    graph = _with(1)
    graph.xnodes[0].output_min_max.output_max = number
    return graph


@pytest.mark.parametrize(
    "graph",
    [
        _clamped(float(numpy.float32(1)) + 2**-24),
        _clamped("6"),
        _clamped(1e-50),
        _clamped(1e-42),
        _clamped(1 << 24),
    ],
)
def test_what_is_not_plainly_of_its_field_is_left_to_the_compiler(graph: Any) -> None:
    with pytest.raises(NotSerializable):
        _written(graph)
    assert payloads._convert_to_flatbuffer(graph) == payloads._upstream(graph)


class SymInt:
    """Of this name upstream refuses what it does not know."""


@pytest.mark.parametrize("number", [SymInt(), -1, 2**40, True, "no", None])
def test_what_is_wrong_is_told_by_upstream(number: Any) -> None:
    graph = _with(number)
    with pytest.raises(Exception) as theirs:  # noqa: PT011 (whatever it is)
        payloads._upstream(graph)
    with pytest.raises(Exception) as ours:  # noqa: PT011
        payloads._convert_to_flatbuffer(graph)
    assert ours.type is theirs.type


def test_who_wants_to_read_the_graph_gets_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(payloads.upstream.logger, "level", logging.DEBUG)
    payloads._convert_to_flatbuffer(_with(1))
    assert list(tmp_path.glob("xnnpack_delegate_graph_*.json"))


def test_no_process_is_started_for_a_delegate(monkeypatch: pytest.MonkeyPatch) -> None:
    install()
    assert payloads._load_schema() is not None
    with monkeypatch.context() as without:
        without.setattr(payloads.upstream, "convert_to_flatbuffer", payloads._upstream)
        upstreams = Tester(NET, "xnnpack:fp32")
        lower(upstreams)
    monkeypatch.setattr(_flatbuffer, "_run_flatc", None)
    ours = Tester(NET, "xnnpack:fp32")
    lower(ours)
    assert ours.program == upstreams.program


@pytest.mark.parametrize(
    "text",
    [
        "struct Pair { a:int; b:int; } table One { pair:Pair; } root_type One;",
        "table One { bytes:[ubyte] (force_align: 16); } root_type One;",
        "table One { name:string (required); } root_type One;",
        "table One { number:int = null; } root_type One;",
    ],
)
def test_a_schema_with_more_to_it_is_left_to_the_compiler(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payloads.upstream, "_cached_schema_bytes", text.encode())
    assert payloads._load_schema.__wrapped__() is None


def test_a_schema_says_what_a_field_is_and_what_it_is_else(tmp_path: Path) -> None:
    source = tmp_path / "one.fbs"
    source.write_text(
        "table Two { real:float = 0.5; } union Any { Two } "
        "table One { old:int (deprecated); any:Any; list:[Two]; number:short = 3; } "
        'root_type One; file_identifier "ONE1";'
    )
    _flatbuffer._run_flatc(["--binary", "--schema", "-o", str(tmp_path), str(source)])
    found = flatc_schema.parse_schema((tmp_path / "one.bfbs").read_bytes())
    assert found.identifier == b"ONE1"
    one, two = found.tables[found.root], found.tables[1 - found.root]
    assert one["old"].is_deprecated
    assert (one["number"].default, two["real"].default) == (3, 0.5)
    assert one["list"].element is flatc_schema.BaseType.TABLE
    assert found.tables[one["list"].number] == two
    assert found.unions[one["any"].number] == {"Two": (1, 1 - found.root)}
    assert [one[name].slot for name in ("old", "any_type", "any", "list", "number")] == [*range(5)]
