"""List the nodes of an XNNPACK payload with the ``flatc`` and the schema in executorch's wheel."""

from __future__ import annotations

import importlib.resources
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness import ProgramError
from harness.backend_api import DelegatePayload, describe

# A node takes about a hundred bytes, and the JSON that flatc writes is much larger.
_LARGEST = 16 << 20

_SECONDS = 60.0

# XNN_INVALID_VALUE_ID and the like: an operand that is not used.
_ABSENT = 2**32 - 1

_NOT_FINITE = re.compile(rb"(?<=[\s:,\[])-?(?:inf|nan)(?=[\s,\]}])")


def list_nodes(payload: DelegatePayload) -> Iterator[str]:
    """Yield a line of totals, then a line for each input, output, constant and node.

    Raises:
        ProgramError: the payload has no XNNPACK header, or its graph cannot be read.
    """
    graph, constants = _split_payload(payload.data)
    yield (
        f"flatbuffer {bytes(graph[4:8]).decode('ascii', 'replace')} of {len(graph):,} bytes, "
        f"{len(constants):,} bytes of constants beside it"
    )
    if len(graph) > _LARGEST:
        yield f"  nodes are not listed: the graph is larger than {_LARGEST:,} bytes"
        return
    yield from _list_graph(_decode_graph(graph), payload.named_data)


def read_border_dtypes(data: bytes) -> tuple[list[str], list[str]]:
    """Return the dtypes of a payload's inputs and outputs as XNNPACK names them, such as ``fp32``.

    Raises:
        ProgramError: as :func:`list_nodes`.
    """
    graph = _decode_graph(_split_payload(data)[0])
    try:
        values = dict(map(_read_value, graph.get("xvalues", ())))
        inputs, outputs = (
            [values[number][0].partition("[")[0] for number in graph.get(f"{role}_ids", ())]
            for role in ("input", "output")
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ProgramError(f"the graph is inconsistent: {describe(error, 200)}") from error
    return inputs, outputs


def read_constants(data: bytes) -> memoryview:
    """Return the bytes of the constants that a payload stores beside its graph.

    Raises:
        ProgramError: the payload has no XNNPACK header.
    """
    return _split_payload(data)[1]


def _split_payload(data: bytes) -> tuple[memoryview, memoryview]:
    """Return the flatbuffer of a payload and its constants."""
    from executorch.backends.xnnpack.serialization.xnnpack_graph_serialize import XNNHeader

    try:
        header = XNNHeader.from_bytes(data[: XNNHeader.EXPECTED_LENGTH])
    except ValueError as error:
        raise ProgramError(f"the payload of XnnpackBackend: {error}") from error
    begin, size = header.flatbuffer_offset, header.flatbuffer_size
    if not header.is_valid() or begin + size > len(data) or size < 8:
        raise ProgramError(
            f"the payload of XnnpackBackend is truncated: it has {len(data)} bytes, and its header "
            f"says that the graph ends at byte {begin + size}"
        )
    place, constants = header.constant_data_offset, header.constant_data_size
    whole = memoryview(data)
    return whole[begin : begin + size], whole[place : place + constants]


def _decode_graph(graph: memoryview) -> Any:
    """Convert the flatbuffer to plain data."""
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
            output = error.stdout.decode("utf-8", "replace").replace(folder, "").split("\n")
            reason = output[0].strip() or f"it ended with exit code {error.returncode}"
            raise ProgramError(f"flatc rejects the graph: {reason}") from error
        except Exception as error:
            # flatc is missing, takes too long, or writes invalid JSON.
            raise ProgramError(f"flatc cannot read the graph: {describe(error, 200)}") from error


def _list_graph(graph: Mapping[str, Any], named: Mapping[str, Any]) -> Iterator[str]:
    try:
        values = dict(map(_read_value, graph.get("xvalues", ())))
        constants = graph.get("constant_data", ())
        for role in ("input", "output"):
            for number in graph.get(f"{role}_ids", ()):
                yield f"  {role:<8} {_format_value(number, values)}"
        for number, (_, place) in values.items():
            if place:
                source = _describe_source(constants[place], named)
                yield f"  constant {_format_value(number, values)} {source}"
        for at, node in enumerate(graph.get("xnodes", ())):
            fields = node.get("xnode_union", {})
            ends = {name: value for name, value in fields.items() if name.endswith("_id")}
            inputs = [
                _format_value(value, values)
                for name, value in ends.items()
                if name != "output_id" and value != _ABSENT
            ]
            kind = node.get("xnode_union_type", "?").removeprefix("XNN")
            output = _format_value(ends.get("output_id", _ABSENT), values)
            options = {
                name: value
                for name, value in fields.items()
                if name not in ends and value not in (0, None, [])
            }
            # A missing limit was infinite: see _NOT_FINITE.
            limits = node.get("output_min_max") or {}
            options |= {name: value for name, value in limits.items() if value is not None}
            suffix = "".join(f" {name}={value}" for name, value in options.items())
            yield f"  {at:>5}  {kind:<22} {output} <- {', '.join(inputs)}{suffix}"
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise ProgramError(f"the graph is inconsistent: {describe(error, 200)}") from error


def _read_value(entry: Mapping[str, Any]) -> tuple[int, tuple[str, int]]:
    """Return the id of a value, its type with shape, and its constant's index (0 for none)."""
    tensor = entry["xvalue_union"]
    tensor = tensor.get("tensor_value", tensor)
    dtype = tensor["datatype"].removeprefix("xnn_datatype_")
    shape = tensor.get("dims", [])
    return tensor["id_out"], (f"{dtype}{shape}", tensor.get("constant_buffer_idx", 0))


def _format_value(number: int, values: Mapping[int, tuple[str, int]]) -> str:
    return f"v{number} {values[number][0]}" if number in values else f"v{number}"


def _describe_source(constant: Mapping[str, Any], named: Mapping[str, Any]) -> str:
    key = constant.get("named_key", "")
    if not key:
        return f"{constant.get('size', 0):,} bytes"
    return f"{len(named[key]):,} bytes ({key})" if key in named else f"not in the program ({key})"
