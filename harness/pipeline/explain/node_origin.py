"""Describe a node of a graph: its line of the model, module, operator and arguments."""

from __future__ import annotations

import operator
import re
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.fx import Node

from harness.execution.operators import op_name

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in \S+\n\s+(.*)')
_TORCH = str(Path(torch.__file__).parent)
# Passes put their own lines into nodes that they make.
_OTHERS = re.compile(r"^<|/(?:site|dist)-packages/(?:executorch|torchao|tosa|mlx)/")

# Do not search further than this for a neighbour's line.
_NEIGHBOURS = 64
_ARGUMENTS = 16
_LONGEST = 120


def find_source(node: Node) -> str:
    """The line of the model of a node, such as ``model.py:12: hidden = self.linear(x)``.

    It is the innermost frame outside of torch; empty if the graph has none. Paths are relative to
    the current folder or to site-packages where possible.
    """
    own = [frame for frame in _frames(node) if not frame[0].startswith(_TORCH)]
    return _format_frame(own[-1]) if own else ""


def find_nearest_source(node: Node) -> str:
    """The line of the model of a node, or of the nearest node that it reads or that reads it.

    A model of torch's own modules has no lines of its own; the line is then in torch's module.
    """
    near = list(_walk_neighbours(node))
    lines = (find_source(each) for each in near)
    return next(filter(None, lines), "") or next(
        (_format_frame(frames[-1]) for each in near if (frames := _frames(each))), ""
    )


def get_module_path(node: Node) -> str:
    """The path of the submodule whose ``forward`` made the node, or empty."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


def get_operator_name(node: Node) -> str:
    """The operator that a node calls; for ``getitem``, the operator that computes the tuple.

    A backend's operator is followed by its ATen operator, if the graph has it:
    ``tosa.ABS.default of aten.abs.default``.
    """
    while node.target is operator.getitem and isinstance(node.args[0], Node):
        node = node.args[0]
    name = op_name(node.target)
    first = node.meta.get("original_aten")
    if name.startswith(("aten.", "quantized_decomposed.")) or first is None:
        return name
    return f"{name} of {op_name(first)}"


class _Formatted:
    """A value of which only the text is known."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def format_arguments(
    node: Node,
    values: Mapping[str, Any] | None = None,
    seen: Mapping[Node, Any] | None = None,
) -> list[str]:
    """The arguments of a node as text; see :func:`format_value`.

    Keyword arguments begin with their name, as in ``approximate='tanh'``. State that the graph
    writes to is marked ``written``; state that several nodes read is marked ``shared``.

    Args:
        node: a call.
        values: values of nodes by name, where a run of the graph has them. The metadata of a graph
            describes the exported values, not those after a quantizer changed it.
        seen: values of nodes without metadata, formatted by ``str``.
    """
    known = values or {}

    def value_of(item: Any) -> Any:
        if not isinstance(item, Node):
            return item
        if isinstance(known.get(item.name), torch.Tensor):
            return known[item.name]
        value = item.meta.get("val", item.meta.get("example_value"))
        if value is None and seen is not None and item in seen:
            return _Formatted(str(seen[item]))
        return value

    named = {name: value for name, value in node.kwargs.items() if value is not None}
    plain = [
        f"{format_value(torch.fx.node.map_arg(item, value_of))}{_state(item)}" for item in node.args
    ]
    shown = [*plain, *(f"{name}={format_value(value_of(value))}" for name, value in named.items())]
    return [text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…" for text in shown][
        :_ARGUMENTS
    ]


def _state(item: Any) -> str:
    if not isinstance(item, Node) or item.op != "get_attr":
        return ""
    same = (
        node for node in item.graph.nodes if (node.op, node.target) == ("get_attr", item.target)
    )
    users = [user for node in same for user in node.users if user.op == "call_function"]
    if any(op_name(user.target).rpartition(".")[0].endswith("_") for user in users):
        return " written"
    return " shared" if len(users) > 1 else ""


def format_value(value: Any) -> str:
    """Format a value, such as ``float32[1, 3, 8, 8] channels-last`` for a tensor.

    A dim order is included if it is not the default. Lists are in ``[...]``; other values are
    formatted by ``repr``.
    """
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype}[{', '.join(map(str, value.shape))}]{_layout(value)}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_value, value))}]"
    return str(value) if isinstance(value, torch.SymInt | torch.dtype) else repr(value)


def _layout(tensor: torch.Tensor) -> str:
    try:
        order = tensor.dim_order()
    except Exception:  # unknown sizes or overlapping elements
        return ""
    if not tensor.numel() or tensor.is_contiguous() or tuple(order) == tuple(range(tensor.dim())):
        return ""
    is_last = tensor.dim() in (4, 5) and tuple(order) == (0, *range(2, tensor.dim()), 1)
    return " channels-last" if is_last else f" dim order {tuple(order)}"


def _walk_neighbours(node: Node) -> Iterable[Node]:
    """The node, the nodes that it depends on, then the nodes that depend on it; nearest first."""
    for direction in ("all_input_nodes", "users"):
        queue, seen = deque([node]), {node}
        while queue and len(seen) <= _NEIGHBOURS:
            current = queue.popleft()
            yield current
            for each in getattr(current, direction):
                if each not in seen:
                    seen.add(each)
                    queue.append(each)


def _frames(node: Node) -> list[tuple[str, str, str]]:
    found = _FRAME.findall(node.meta.get("stack_trace") or "")
    return [frame for frame in found if not _OTHERS.search(frame[0])]


def _format_frame(frame: tuple[str, str, str]) -> str:
    path, line, code = frame
    return f"{_shorten_path(path)}:{line}: {code.strip()}"


def _shorten_path(path: str) -> str:
    if "site-packages/" in path:
        return path.rpartition("site-packages/")[2]
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path
