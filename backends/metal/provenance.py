"""From a line of a generated wrapper to the node of the partition that it is from."""

from __future__ import annotations

import re

from backends.metal.generation.generated import Generated
from backends.metal.machine.calls import Call

_NODES = re.compile(r"//.* Source Nodes: \[([^\]]*)\]")
_LAUNCH = re.compile(r"run_command_block\(get_(\w+)_handle\(\)")
_SOURCE = re.compile(r"const char\* (\w+)_source = ")
# A call of a kernel of the runtime, and the check of its result, come after their comment.
_KERNEL = re.compile(
    r"aoti_torch_(?!empty_strided|_reinterpret|mps_(?:set_arg|dispatch|run|start))\w+\(|assert_"
)


class NodesOfLines:
    """Finds nodes by the comments that Inductor writes before kernels and calls of the runtime.

    Args:
        code: what was generated for a partition.
    """

    def __init__(self, code: Generated) -> None:
        self._lines = code.wrapper.splitlines()
        self._linears = code.linears
        self._shaders: dict[str, str] = {}
        last = ""
        for line in self._lines:
            if (comment := _NODES.search(line)) is not None:
                last = comment[1]
            elif (source := _SOURCE.search(line)) is not None:
                self._shaders[source[1]] = last

    def find(self, call: Call) -> str:
        """The last of the nodes that a call computes; empty for a call around the wrapper."""
        names = self._names(call.line).split(", ")
        return self._linears.get(_written(names), _written(names)) if call.line else ""

    def _names(self, number: int) -> str:
        line = self._lines[number - 1] if number else ""
        if _KERNEL.search(line):
            before = (_NODES.search(one) for one in reversed(self._lines[:number]))
            return next((found[1] for found in before if found), "")
        for after in self._lines[number:]:
            if (comment := _NODES.search(after)) is not None:
                return comment[1]
            if (launch := _LAUNCH.search(after)) is not None:
                return self._shaders.get(launch[1], "")
        return ""


def _written(names: list[str]) -> str:
    """The node that stands for several: the last one, but a linear's matmul for its weight's t."""
    if names[-1].startswith("t_default"):
        return next((name for name in reversed(names) if name.startswith("matmul_")), names[-1])
    return names[-1]
