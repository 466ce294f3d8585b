"""The nodes of an XNNPACK payload, read by the ``flatc`` and the schema of executorch's wheel."""

from __future__ import annotations

import importlib.resources
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness import DelegatePayload, ProgramError, describe

# In a graph without constants a node is a hundred bytes; the JSON that flatc makes is much larger.
_LARGEST = 16 << 20

_SECONDS = 60.0

# XNN_INVALID_VALUE_ID and the like: a place that is not used.
_ABSENT = 2**32 - 1

_NOT_FINITE = re.compile(rb"(?<=[\s:,\[])-?(?:inf|nan)(?=[\s,\]}])")


def listing(payload: DelegatePayload) -> Iterator[str]:
    """A line that counts, and one a value of the interface, a constant and a node.

    Raises:
        ProgramError: the payload has no header of XNNPACK's, or its graph cannot be read.
    """
    graph, beside = _parts(payload.data)
    yield (
        f"flatbuffer {bytes(graph[4:8]).decode('ascii', 'replace')} of {len(graph):,} bytes, "
        f"{len(beside):,} bytes of constants beside it"
    )
    if len(graph) > _LARGEST:
        yield f"  its nodes are not listed: it is larger than {_LARGEST:,} bytes"
        return
    yield from _lines(_decoded(graph), payload.named_data)


def constants(data: bytes) -> memoryview:
    """The constants that a payload has beside its graph.

    Raises:
        ProgramError: the payload has no header of XNNPACK's.
    """
    return _parts(data)[1]


def _parts(data: bytes) -> tuple[memoryview, memoryview]:
    """The flatbuffer of a payload and its constants."""
    from executorch.backends.xnnpack.serialization.xnnpack_graph_serialize import XNNHeader

    try:
        header = XNNHeader.from_bytes(data[: XNNHeader.EXPECTED_LENGTH])
    except ValueError as error:
        raise ProgramError(f"the payload of XnnpackBackend: {error}") from error
    begin, size = header.flatbuffer_offset, header.flatbuffer_size
    if not header.is_valid() or begin + size > len(data) or size < 8:
        raise ProgramError(
            f"the payload of XnnpackBackend is cut short: {len(data)} bytes, its graph ends at "
            f"byte {begin + size}"
        )
    place, constants = header.constant_data_offset, header.constant_data_size
    whole = memoryview(data)
    return whole[begin : begin + size], whole[place : place + constants]


def _decoded(graph: memoryview) -> Any:
    """The flatbuffer as plain data."""
    from executorch.backends.xnnpack import serialization

    from harness.vendors.executorch import _get_flatc_path

    with tempfile.TemporaryDirectory() as folder:
        schema, binary = Path(folder, "schema.fbs"), Path(folder, "graph.bin")
        found = importlib.resources.files(serialization).joinpath("schema.fbs")
        schema.write_bytes(found.read_bytes())
        binary.write_bytes(graph)
        options = ("--json", "--strict-json", "--defaults-json", "-o", folder)
        try:
            subprocess.run(
                [_get_flatc_path(), *options, schema, "--", binary],
                check=True,
                capture_output=True,
                timeout=_SECONDS,
            )
            # flatc spells infinities and NaN as C++ does.
            return json.loads(_NOT_FINITE.sub(b"null", binary.with_suffix(".json").read_bytes()))
        except subprocess.CalledProcessError as error:
            said = error.stdout.decode("utf-8", "replace").replace(folder, "").split("\n")
            raise ProgramError(
                f"flatc refuses the graph: {said[0].strip() or f'it ended with {error.returncode}'}"
            ) from error
        except Exception as error:
            # flatc is not there, or takes too long, or writes what is no JSON.
            raise ProgramError(f"flatc does not read the graph: {describe(error, 200)}") from error


def _lines(graph: Mapping[str, Any], named: Mapping[str, Any]) -> Iterator[str]:
    try:
        values = dict(map(_value, graph.get("xvalues", ())))
        constants = graph.get("constant_data", ())
        for role in ("input", "output"):
            for number in graph.get(f"{role}_ids", ()):
                yield f"  {role:<8} {_shown(number, values)}"
        for number, (_, place) in values.items():
            if place:
                yield f"  constant {_shown(number, values)} {_source(constants[place], named)}"
        for at, node in enumerate(graph.get("xnodes", ())):
            fields = node.get("xnode_union", {})
            ends = {name: value for name, value in fields.items() if name.endswith("_id")}
            inputs = [
                _shown(value, values)
                for name, value in ends.items()
                if name != "output_id" and value != _ABSENT
            ]
            kind = node.get("xnode_union_type", "?").removeprefix("XNN")
            output = _shown(ends.get("output_id", _ABSENT), values)
            options = {
                name: value
                for name, value in fields.items()
                if name not in ends and value not in (0, None, [])
            }
            # Where there is no limit it is infinite.
            limits = node.get("output_min_max") or {}
            options |= {name: value for name, value in limits.items() if value is not None}
            told = "".join(f" {name}={value}" for name, value in options.items())
            yield f"  {at:>5}  {kind:<22} {output} <- {', '.join(inputs)}{told}"
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise ProgramError(f"the graph contradicts itself: {describe(error, 200)}") from error


def _value(entry: Mapping[str, Any]) -> tuple[int, tuple[str, int]]:
    """Number of a value; its type with its shape, and its place among the constants or 0."""
    tensor = entry["xvalue_union"]
    tensor = tensor.get("tensor_value", tensor)
    dtype = tensor["datatype"].removeprefix("xnn_datatype_")
    shape = tensor.get("dims", [])
    return tensor["id_out"], (f"{dtype}{shape}", tensor.get("constant_buffer_idx", 0))


def _shown(number: int, values: Mapping[int, tuple[str, int]]) -> str:
    return f"v{number} {values[number][0]}" if number in values else f"v{number}"


def _source(constant: Mapping[str, Any], named: Mapping[str, Any]) -> str:
    key = constant.get("named_key", "")
    if not key:
        return f"{constant.get('size', 0):,} bytes"
    return f"{len(named[key]):,} bytes ({key})" if key in named else f"not in the program ({key})"
