"""Find the node of a graph that a vendor's code processed when it raised an error.

A pass, a partitioner, a quantizer or an emitter has its current node in a local variable. A
running graph is generated code with one line for each node. Inductor's scheduler records the nodes
of each kernel. All of these are in the frames of the traceback.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import re
import textwrap
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from torch.fx import GraphModule, Node

from harness.execution.operators import op_name
from harness.pipeline.explain.model_frames import exception_chain, is_harness_file

_GENERATED = "<eval_with_key>"
_ASSIGNED = re.compile(r"^\s*(\w+)(?:\s*:[^=]+)?\s*=[^=]")
# Local variables that hold the current node, most specific first.
_NAMES = ("target_node", "node", "n", "op_node", "current_node", "fx_node", "user")


class RaisingNode(NamedTuple):
    """The node at which an error was raised, and the values of nodes if the graph was running."""

    node: Node
    values: Mapping[str, Any]


def find_raising_node(error: BaseException) -> RaisingNode | None:
    """Find the innermost node of a graph in the frames of an error and its causes.

    Args:
        error: the error of a stage.

    Returns:
        None if no frame is at a node that calls an operator.
    """
    for link in reversed(list(exception_chain(error))):
        inner = ""  # the operation of the kernel that Inductor was generating
        for frame, line in reversed(_frames(link.__traceback__)):
            if is_harness_file(frame.f_code.co_filename):
                continue
            if (found := _find_in_frame(frame, line, inner)) is not None:
                return found
            inner = _operation(frame) or inner
    return None


def _frames(trace: types.TracebackType | None) -> list[tuple[types.FrameType, int]]:
    found = []
    while trace is not None:
        found.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return found


def _find_in_frame(frame: types.FrameType, line: int, inner: str) -> RaisingNode | None:
    local = frame.f_locals
    if frame.f_code.co_filename.startswith(_GENERATED):
        return _find_generated_line(frame, line)
    names = sorted(local, key=lambda name: _NAMES.index(name) if name in _NAMES else len(_NAMES))
    for name in names:
        value = local[name]
        if (
            isinstance(value, Node)
            and _calls(value)
            and not _is_stale_loop_variable(frame, name, line)
        ):
            return RaisingNode(value, {})
    for name in ("node", "self", "buffer", "snode"):
        if (node := _find_inductor_node(local.get(name), inner)) is not None:
            return RaisingNode(node, {})
    return None


def _find_generated_line(frame: types.FrameType, line: int) -> RaisingNode | None:
    """The node at the current line of a graph's generated code."""
    module = frame.f_locals.get("self")
    assigned = _ASSIGNED.match(linecache.getline(frame.f_code.co_filename, line))
    if not isinstance(module, GraphModule) or assigned is None:
        return None
    node = next((each for each in module.graph.nodes if each.name == assigned[1]), None)
    if node is None or not _calls(node):
        return None
    return RaisingNode(node, frame.f_locals)


def _calls(node: Node) -> bool:
    """Whether a node calls an operator; nodes of Inductor's kernels do not."""
    if node.op != "call_function":
        return False
    try:
        return bool(op_name(node.target))
    except Exception:  # the target has no name
        return False


def _operation(frame: types.FrameType) -> str:
    """The operation that Inductor was generating, such as ``sinh``."""
    node = frame.f_locals.get("n")
    return str(node.target) if isinstance(node, Node) and node.op == "call_method" else ""


def _find_inductor_node(item: Any, inner: str) -> Node | None:
    """The node of a buffer or kernel of Inductor.

    It is the node of the operation that Inductor was generating, else its origin node.
    """
    data = getattr(item, "node", item)
    origins = [each for each in (_read(data, "origins") or ()) if isinstance(each, Node)]
    named = [each for each in origins if f".{inner}." in op_name(each.target)] if inner else []
    first = _read(data, "origin_node")
    for node in (*named, first, *reversed(origins)):
        if isinstance(node, Node) and _calls(node):
            return node
    return None


def _read(item: Any, name: str) -> Any:
    try:
        return getattr(item, name, None)
    except Exception:  # a vendor's property may raise
        return None


def _is_stale_loop_variable(frame: types.FrameType, name: str, line: int) -> bool:
    """Whether a variable has its value from a loop that has ended."""
    loops = _loops(frame.f_code).get(name, [])
    return bool(loops) and not any(first <= line <= last for first, last in loops)


@functools.lru_cache(maxsize=256)
def _loops(code: types.CodeType) -> dict[str, list[tuple[int, int]]]:
    """The lines of a function's loops, by the variables that only loops assign."""
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):
        return {}
    found: dict[str, list[tuple[int, int]]] = {}
    bound: set[str] = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    for each in ast.walk(tree):
        if isinstance(each, ast.For):
            for name in _names(each.target):
                found.setdefault(name, []).append(
                    (each.lineno + first - 1, (each.end_lineno or each.lineno) + first - 1)
                )
        elif isinstance(each, ast.Assign):
            bound.update(name for target in each.targets for name in _names(target))
    return {name: loops for name, loops in found.items() if name not in bound}


def _names(target: ast.expr) -> Iterator[str]:
    return (each.id for each in ast.walk(target) if isinstance(each, ast.Name))
