"""Writes an exported graph as the source of a module, one line for each node."""

from __future__ import annotations

import keyword
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from harness.errors import UsageError
from harness.pipeline.explain.node_origin import find_source
from harness.tracing.script.tensor_text import ScriptTensors, format_literal
from harness.vendors.torch import HigherOrderOperator, OpOverload

_WIDTH = 99

# Arithmetic of sizes, written as operators instead of function calls.
_INFIX = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.floordiv: "//",
    operator.truediv: "/",
    operator.mod: "%",
    operator.pow: "**",
    operator.eq: "==",
    operator.ne: "!=",
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
}


@dataclass
class ModuleSource:
    """The classes of a module, and the tensors that it contains.

    Attributes:
        values: the tensors of the script.
        lines: the classes; inner ones, of control flow, come first.
        namespaces: namespaces of the called operators, such as ``aten``.
        has_branches: whether the graph has control flow.
    """

    values: ScriptTensors
    lines: list[str] = field(default_factory=list)
    namespaces: set[str] = field(default_factory=set)
    has_branches: bool = False

    def add_class(self, module: GraphModule, name: str) -> None:
        """Write a graph as a class with this name."""
        inner: dict[str, str] = {}
        state: dict[str, tuple[str, torch.Tensor]] = {}
        names: dict[Node, str] = {}
        for node in module.graph.nodes:
            if node.op == "get_attr":
                found = _attribute(module, str(node.target))
                attribute = _identifier(str(node.target).replace(".", "_"))
                names[node] = f"self.{attribute}"
                if isinstance(found, GraphModule):
                    self.has_branches = True
                    inner[attribute] = "".join(
                        part.capitalize() for part in f"{name}_{attribute}".split("_")
                    )
                    self.add_class(found, inner[attribute])
                elif isinstance(found, torch.Tensor):
                    state[attribute] = (_kind(module, str(node.target)), found)
                else:
                    raise UsageError(
                        f"cannot write the graph as a script: it contains a "
                        f"{type(found).__name__} ({node.target})"
                    )
            elif node.op == "placeholder":
                names[node] = _parameter(node)
        self.lines += [f"class {name}(torch.nn.Module):", *self._init(inner, state)]
        inputs = [names[node] for node in module.graph.nodes if node.op == "placeholder"]
        self.lines += _wrap("    def forward(", ["self", *inputs], "):")
        self.lines += [f"        {line}" for line in self._body(module, names)]
        self.lines += ["", ""]

    def _init(
        self, inner: dict[str, str], state: dict[str, tuple[str, torch.Tensor]]
    ) -> Iterator[str]:
        if not inner and not state:
            return
        yield "    def __init__(self):"
        yield "        super().__init__()"
        for attribute, name in inner.items():
            yield f"        self.{attribute} = {name}()"
        for attribute, (kind, tensor) in state.items():
            text = self.values.format(tensor, indent=8)
            if kind == "parameter":
                text = f"torch.nn.Parameter({text}, requires_grad=False)"
            elif kind == "buffer":
                text = f"torch.nn.Buffer({text})"
            yield f"        self.{attribute} = {text}"
        yield ""

    def _body(self, module: GraphModule, names: dict[Node, str]) -> Iterator[str]:
        said = ""
        for node in module.graph.nodes:
            if node.op == "output":
                returned = node.args[0]
                items = returned if isinstance(returned, (tuple, list)) else [returned]
                yield f"return ({', '.join(self._text(item, names) for item in items)},)"
            elif node.op == "call_function":
                if (source := find_source(node)) and source != said:
                    said = source
                    yield f"# {source.rpartition('/')[2]}"[: _WIDTH - 8]
                names[node] = node.name
                yield from self._call(node, names)
            elif node.op not in ("get_attr", "placeholder"):
                raise UsageError(
                    f"cannot write the graph as a script: it contains the node {node.op} "
                    f"{node.target}"
                )

    def _call(self, node: Node, names: dict[Node, str]) -> list[str]:
        args = [self._text(item, names) for item in node.args]
        if node.target is operator.getitem:
            return [f"{node.name} = {args[0]}[{args[1]}]"]
        if node.target in _INFIX and len(args) == 2:
            return [f"{node.name} = {args[0]} {_INFIX[node.target]} {args[1]}"]
        args += [f"{key}={self._text(item, names)}" for key, item in node.kwargs.items()]
        return _wrap(f"{node.name} = {self._write_callee(node.target)}(", args, ")")

    def _write_callee(self, target: Any) -> str:
        if isinstance(target, OpOverload):
            self.namespaces.add(target.namespace)
            return f"torch.ops.{target}"
        if isinstance(target, HigherOrderOperator):
            return f"torch.ops.higher_order.{target}"
        module = getattr(target, "__module__", "")
        if module.split(".")[0] in ("torch", "math", "operator", "_operator"):
            return f"{module.removeprefix('_')}.{target.__name__}"
        raise UsageError(f"cannot write the graph as a script: it calls {target}")

    def _text(self, item: Any, names: dict[Node, str]) -> str:
        if isinstance(item, Node):
            return names[item]
        if isinstance(item, (list, tuple)):
            inner = ", ".join(self._text(each, names) for each in item)
            if isinstance(item, list) or type(item) is not tuple:
                return f"[{inner}]"
            return f"({inner},)" if len(item) == 1 else f"({inner})"
        if isinstance(item, slice):
            ends = (self._text(each, names) for each in (item.start, item.stop, item.step))
            return f"slice({', '.join(ends)})"
        return format_literal(item)


def _wrap(head: str, items: list[str], tail: str) -> list[str]:
    """Return one line, or one line for each item where that is too long."""
    line = f"{head}{', '.join(items)}{tail}"
    if len(line) <= _WIDTH - 8 or not items:
        return [line]
    indent = " " * (len(head) - len(head.lstrip()))
    return [head, *(f"{indent}    {item}," for item in items), f"{indent}{tail}"]


def _parameter(node: Node) -> str:
    name = str(node.target)
    return name if name.isidentifier() and not keyword.iskeyword(name) else node.name


def _identifier(name: str) -> str:
    return name if name.isidentifier() else f"_{name}"


def _attribute(module: torch.nn.Module, path: str) -> Any:
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _kind(module: torch.nn.Module, path: str) -> str:
    owner, _, name = path.rpartition(".")
    holder = module.get_submodule(owner)
    if name in holder._parameters:
        return "parameter"
    return "buffer" if name in holder._buffers else "constant"
