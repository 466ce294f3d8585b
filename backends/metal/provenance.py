"""From a call in a generated wrapper to the node of the partition that it computes."""

from __future__ import annotations

import re

from backends.metal.generation.generated import Generated
from backends.metal.machine.calls import Call

# A result's pointer, or else the first buffer: results that are written to come first.
_BUFFERS = (re.compile(r"&(\w+?)_handle\b"), re.compile(r"\b(buf\d+)\b"))
_IN_KERNEL = re.compile(r"aoti_torch_mps_(?:set_arg|dispatch)")
_START = "aoti_torch_mps_start_encoding"


def node_of(code: Generated, call: Call) -> str:
    """The node that a call is made for.

    Args:
        code: what was generated for the partition.
        call: one of its calls.

    Returns:
        Its name; empty where it is not known, and for what the runtime calls around the wrapper.
    """
    if not call.line:
        return ""
    lines = code.wrapper.splitlines()
    line = lines[call.line - 1]
    if _IN_KERNEL.search(line):
        # The first argument of a kernel is what it writes.
        starts = (at for at in range(call.line - 1, 0, -1) if _START in lines[at])
        line = lines[next(starts, call.line - 2) + 1]
    found = (pattern.search(line) for pattern in _BUFFERS)
    return next((code.nodes[one[1]] for one in found if one and one[1] in code.nodes), "")
