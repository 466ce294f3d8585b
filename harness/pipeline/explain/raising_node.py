"""The node of a graph that a vendor's code was at when it raised, from the frames of its traceback.

A pass, a partitioner, a quantizer or an emitter holds the node that it is at in a local variable;
a graph that runs is generated code whose lines are its nodes; Inductor's scheduler knows which
nodes a kernel is made of.
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
from harness.pipeline.explain.model_frames import chain_of, is_of_the_harness

_GENERATED = "<eval_with_key>"
_ASSIGNED = re.compile(r"^\s*(\w+)(?:\s*:[^=]+)?\s*=[^=]")
# Local variables that hold the node that is looked at, most telling first.
_NAMES = ("target_node", "node", "n", "op_node", "current_node", "fx_node", "user")


class Raising(NamedTuple):
    """The node at which an error arose, and the values of nodes where the graph was being run."""

    node: Node
    values: Mapping[str, Any]


def raising_node(error: BaseException) -> Raising | None:
    """The innermost node of a graph in the frames of an error and of what caused it.

    Args:
        error: what a stage raised.

    Returns:
        None where no frame is at a node that calls an operator.
    """
    for link in reversed(list(chain_of(error))):
        inner = ""  # the name of the operation inside of a kernel that is being generated
        for frame, line in reversed(_frames(link.__traceback__)):
            if is_of_the_harness(frame.f_code.co_filename):
                continue
            if (found := _at(frame, line, inner)) is not None:
                return found
            inner = _operation(frame) or inner
    return None


def _frames(trace: types.TracebackType | None) -> list[tuple[types.FrameType, int]]:
    found = []
    while trace is not None:
        found.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return found


def _at(frame: types.FrameType, line: int, inner: str) -> Raising | None:
    local = frame.f_locals
    if frame.f_code.co_filename.startswith(_GENERATED):
        return _generated(frame, line)
    names = sorted(local, key=lambda name: _NAMES.index(name) if name in _NAMES else len(_NAMES))
    for name in names:
        value = local[name]
        if isinstance(value, Node) and _calls(value) and not _is_left_over(frame, name, line):
            return Raising(value, {})
    for name in ("node", "self", "buffer", "snode"):
        if (node := _scheduled(local.get(name), inner)) is not None:
            return Raising(node, {})
    return None


def _generated(frame: types.FrameType, line: int) -> Raising | None:
    """The node whose line of a graph's generated code is being run."""
    module = frame.f_locals.get("self")
    assigned = _ASSIGNED.match(linecache.getline(frame.f_code.co_filename, line))
    if not isinstance(module, GraphModule) or assigned is None:
        return None
    node = next((each for each in module.graph.nodes if each.name == assigned[1]), None)
    if node is None or not _calls(node):
        return None
    return Raising(node, frame.f_locals)


def _calls(node: Node) -> bool:
    """Whether a node calls an operator; what a kernel of Inductor's is made of does not."""
    if node.op != "call_function":
        return False
    try:
        return bool(op_name(node.target))
    except Exception:  # it calls what has no name
        return False


def _operation(frame: types.FrameType) -> str:
    """The operation that a kernel under construction is at: ``sinh``."""
    node = frame.f_locals.get("n")
    return str(node.target) if isinstance(node, Node) and node.op == "call_method" else ""


def _scheduled(item: Any, inner: str) -> Node | None:
    """The node that a buffer or a kernel of Inductor's is made of: that of the operation which is
    being generated, else the one that it is named after."""
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
    except Exception:  # a property of a vendor's
        return None


def _is_left_over(frame: types.FrameType, name: str, line: int) -> bool:
    """Whether a variable is what a loop that has ended left behind."""
    loops = _loops(frame.f_code).get(name, [])
    return bool(loops) and not any(first <= line <= last for first, last in loops)


@functools.lru_cache(maxsize=256)
def _loops(code: types.CodeType) -> dict[str, list[tuple[int, int]]]:
    """The lines of the loops of a function, by the variables that nothing but they bind."""
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
