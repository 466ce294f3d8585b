"""Where in a model's code a node of its graph comes from, what it calls, and on what."""

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
# Passes leave lines of their own in nodes that they make.
_OTHERS = re.compile(r"^<|/(?:site|dist)-packages/(?:executorch|torchao|tosa|mlx)/")

# Further away than this, a neighbour's line says little of a node.
_NEIGHBOURS = 64
_ARGUMENTS = 16
_LONGEST = 120


def source_of(node: Node) -> str:
    """``model.py:12: hidden = self.linear(x)``, of the innermost frame that is not torch's; empty
    where the graph does not say.

    What is below the current folder or among installed packages is spelled from there.
    """
    own = [frame for frame in _frames(node) if not frame[0].startswith(_TORCH)]
    return _spell(own[-1]) if own else ""


def nearest_source(node: Node) -> str:
    """The line of the model that a node is from: its own, else that of the nearest node which it is
    computed from, or that reads it. A module that consists of torch's own modules has no line of
    its own; then it is the line of torch's module.
    """
    near = list(_near(node))
    lines = (source_of(each) for each in near)
    return next(filter(None, lines), "") or next(
        (_spell(frames[-1]) for each in near if (frames := _frames(each))), ""
    )


def module_of(node: Node) -> str:
    """The path of the submodule whose ``forward`` made the node, or empty."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


def operator_of(node: Node) -> str:
    """The operator that a node calls; of an element of a result, the one that made the result.

    An operator of a backend's own is followed by ATen's, where the graph keeps it:
    ``tosa.ABS.default of aten.abs.default``.
    """
    while node.target is operator.getitem and isinstance(node.args[0], Node):
        node = node.args[0]
    name = op_name(node.target)
    first = node.meta.get("original_aten")
    if name.startswith(("aten.", "quantized_decomposed.")) or first is None:
        return name
    return f"{name} of {op_name(first)}"


class _Spelled:
    """A value of which the spelling alone is known."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def arguments_of(
    node: Node,
    values: Mapping[str, Any] | None = None,
    seen: Mapping[Node, Any] | None = None,
) -> list[str]:
    """What a node is called with, as :func:`spell_value` spells it; those with a name have it in
    front, as in ``approximate='tanh'``. State that the graph writes to is ``written``, state that
    several nodes read is ``shared``.

    Args:
        node: a call.
        values: values of nodes by name, where a run of the graph has them: a graph says what was
            exported, not what a quantizer made of it.
        seen: what ``str`` spells of nodes that the graph says nothing of.
    """
    known = values or {}

    def value_of(item: Any) -> Any:
        if not isinstance(item, Node):
            return item
        if isinstance(known.get(item.name), torch.Tensor):
            return known[item.name]
        value = item.meta.get("val", item.meta.get("example_value"))
        if value is None and seen is not None and item in seen:
            return _Spelled(str(seen[item]))
        return value

    named = {name: value for name, value in node.kwargs.items() if value is not None}
    plain = [
        f"{spell_value(torch.fx.node.map_arg(item, value_of))}{_state(item)}" for item in node.args
    ]
    shown = [*plain, *(f"{name}={spell_value(value_of(value))}" for name, value in named.items())]
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


def spell_value(value: Any) -> str:
    """``float32[1, 3, 8, 8] channels-last`` for a tensor, whose dim order is named where it is not
    the default; ``[...]`` around those of a list; all else as Python writes it."""
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype}[{', '.join(map(str, value.shape))}]{_layout(value)}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(spell_value, value))}]"
    return str(value) if isinstance(value, torch.SymInt | torch.dtype) else repr(value)


def _layout(tensor: torch.Tensor) -> str:
    try:
        order = tensor.dim_order()
    except Exception:  # sizes that are not known, or elements that overlap
        return ""
    if not tensor.numel() or tensor.is_contiguous() or tuple(order) == tuple(range(tensor.dim())):
        return ""
    is_last = tensor.dim() in (4, 5) and tuple(order) == (0, *range(2, tensor.dim()), 1)
    return " channels-last" if is_last else f" dim order {tuple(order)}"


def _near(node: Node) -> Iterable[Node]:
    """The node, what it is made of, then what is made of it; nearest first."""
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


def _spell(frame: tuple[str, str, str]) -> str:
    path, line, code = frame
    return f"{_short(path)}:{line}: {code.strip()}"


def _short(path: str) -> str:
    if "site-packages/" in path:
        return path.rpartition("site-packages/")[2]
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path
