"""Parse the ``.pte`` file format and reject files that are no program, truncated or damaged.

Constants, payloads and named data are views of the file's bytes, so that reading a program of
100 MB copies only its tables.
"""

from __future__ import annotations

from executorch.exir import schema

from harness.errors import ProgramError, describe
from harness.vendors.executorch import (
    DataEntry,
    NamedDataStoreOutput,
    PTEFile,
    _ExtendedHeader,
    _flatbuffer_to_program,
    _restore_segments,
)

# file_identifier in executorch's schema/program.fbs, at byte 4 as in every flatbuffer.
_IDENTIFIER = b"ET12"

# Identifiers of related formats, for error messages.
_OTHERS = {
    b"FT01": "it is a .ptd, the external data of a program",
    b"BP08": "it is a bundled program: inputs and outputs for tests around a program",
    b"ED00": "it is an ETDump, the profile of a run",
    b"TOSA": "it is a TOSA graph",
    b"VK00": "it is a Vulkan graph",
    b"TFL3": "it is a TensorFlow Lite model",
}


def read(data: bytes | memoryview) -> PTEFile:
    """Parse the bytes of a ``.pte``; buffers in the result are views of them.

    Raises:
        ProgramError: the bytes are no program, of another format version, truncated or damaged.
    """
    whole = memoryview(data)
    header = _header(whole)
    try:
        program = _flatbuffer_to_program(whole[: header.program_size])
        if not program.execution_plan:
            raise ValueError("it has no methods")
        if not header.segment_base_offset:
            return PTEFile(program=program)
        segments = whole[header.segment_base_offset :]
        named = _take_named_data(program, segments)
        file = _restore_segments(program, segments)
    except Exception as error:
        # On damaged bytes the reader raises any exception, from struct.error to AssertionError.
        reason = describe(error, 200)
        raise ProgramError(f"not an ExecuTorch program, or a damaged one: {reason}") from error
    file.named_data = named
    return file


def list_external_constants(file: PTEFile) -> list[str]:
    """List the names of constants that are stored in a separate ``.ptd`` file."""
    inside = file.named_data.pte_data if file.named_data else {}
    values = (value.val for plan in file.program.execution_plan for value in plan.values)
    extras = (value.extra_tensor_info for value in values if isinstance(value, schema.Tensor))
    names = (
        extra.fully_qualified_name or ""
        for extra in extras
        if extra is not None and extra.location == schema.TensorDataLocation.EXTERNAL
    )
    return sorted({name for name in names if name not in inside})


def _take_named_data(program: schema.Program, segments: memoryview) -> NamedDataStoreOutput | None:
    """Remove the named data from a program and return views of it; executorch's reader copies."""
    named, program.named_data = program.named_data, []
    if not named:
        return None
    places = [program.segments[entry.segment_index] for entry in named]
    views = [segments[place.offset : place.offset + place.size] for place in places]
    if any(len(view) < place.size for view, place in zip(views, places, strict=True)):
        raise ValueError("named data lies beyond the end of the file")
    if any(entry.key is None for entry in named):
        raise ValueError("named data has no name")
    entries = {entry.key: DataEntry(at, 1, None) for at, entry in enumerate(named)}
    return NamedDataStoreOutput(views, entries, {})


def _header(data: memoryview) -> _ExtendedHeader:
    """Return sizes and offsets of the program's sections.

    Raises:
        ProgramError: the first bytes show another format, or a truncated program.
    """
    kind = bytes(data[4:8])
    if kind[:2] == _IDENTIFIER[:2] and kind != _IDENTIFIER:
        raise ProgramError(
            f"a program of format {kind.decode('ascii', 'replace')}; the installed executorch "
            f"reads {_IDENTIFIER.decode()}"
        )
    if kind != _IDENTIFIER:
        what = _OTHERS.get(kind, f"its bytes 4 to 8 are {kind!r}, not {_IDENTIFIER!r}")
        if bytes(data[:2]) == b"PK":
            what = "it is a zip archive, such as a .pt2"
        raise ProgramError(f"not an ExecuTorch program: {what if len(data) else 'it is empty'}")
    head = bytes(data[8 : 8 + _ExtendedHeader.EXPECTED_LENGTH])
    if not head.startswith(_ExtendedHeader.EXPECTED_MAGIC):
        # The header is optional for a program without segments.
        return _ExtendedHeader(len(data), 0, 0)
    if len(head) < _ExtendedHeader.EXPECTED_LENGTH:
        raise ProgramError(f"the program is cut short: {len(data)} bytes")
    header = _ExtendedHeader.from_bytes(head)
    end = max(header.program_size, header.segment_base_offset + header.segment_data_size)
    if end > len(data):
        raise ProgramError(
            f"the program is cut short: {len(data):,} bytes of the {end:,} that its header counts"
        )
    return header
