"""Find the partition's node that a call in a generated wrapper computes."""

from __future__ import annotations

import re

from backends.metal.generation.generated import Generated
from backends.metal.machine.calls import MachineCall

# A result's pointer, or else the first buffer: results come before operands.
_BUFFERS = (re.compile(r"&(\w+?)_handle\b"), re.compile(r"\b(buf\d+)\b"))
_IN_KERNEL = re.compile(r"aoti_torch_mps_(?:set_arg|dispatch)")
_START = "aoti_torch_mps_start_encoding"


def find_node(code: Generated, call: MachineCall) -> str:
    """Find the node that a call computes.

    Args:
        code: the generated code of the partition.
        call: one of its calls.

    Returns:
        The node's name; empty when unknown, and for the runtime's calls around the wrapper.
    """
    if not call.line:
        return ""
    lines = code.wrapper.splitlines()
    line = lines[call.line - 1]
    if _IN_KERNEL.search(line):
        # A kernel writes to its first argument.
        starts = (at for at in range(call.line - 1, 0, -1) if _START in lines[at])
        line = lines[next(starts, call.line - 2) + 1]
    found = (pattern.search(line) for pattern in _BUFFERS)
    return next((code.nodes[one[1]] for one in found if one and one[1] in code.nodes), "")
