"""Describe a payload: a model that OpenVINO's CPU plugin exported."""

from __future__ import annotations

import re
from collections.abc import Iterator

from backends.openvino.library import find_missing_packages
from harness import ProgramError
from harness.backend_api import DelegatePayload

_MAGIC = b"OVCPU_RR"[::-1]
# After the magic bytes: a number of 4 bytes, the length of the text in 8 bytes, the text.
_LENGTH = slice(12, 20)
_TEXT_AT = 20
_TEXT = re.compile(r"ov=(?P<version>[^;]*);isa=(?P<isa>[^;]*)")


def describe_payload(payload: DelegatePayload) -> Iterator[str]:
    """Yield a line of the header, then one for each operation of the plugin.

    Without OpenVINO, a line says that its operations cannot be listed.

    Raises:
        ProgramError: the payload is no model of the CPU plugin, or OpenVINO does not load it.
    """
    yield read_header(payload.data)
    if missing := find_missing_packages():
        yield f"  operations: not listed, {' and '.join(missing)} not installed"
        return
    from backends.openvino.execution import list_operations

    yield from list_operations(payload)


def read_header(data: bytes) -> str:
    """Return the versions, the processor and the size of a payload, as a line.

    Raises:
        ProgramError: the payload is no model of the CPU plugin.
    """
    end = _TEXT_AT + int.from_bytes(data[_LENGTH], "little")
    found = _TEXT.search(data[_TEXT_AT : min(end, len(data))].decode("latin-1"))
    if not data.startswith(_MAGIC) or found is None:
        raise ProgramError("the payload of OpenvinoBackend is no model of OpenVINO's CPU plugin")
    return f"OpenVINO {found['version']}, compiled for {found['isa']}, {len(data):,} bytes"
