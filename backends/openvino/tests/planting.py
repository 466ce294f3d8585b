"""Faults for the graph that OpenVINO compiles: each changes a node or a constant of it.

They are applied to the module that ``OpenvinoBackend.preprocess`` passes to ``openvino_compile``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from harness import Case

Change = Callable[[GraphModule], bool]
"""Changes a graph; returns whether it did."""


class Network(torch.nn.Module):
    """A convolution, a pool, norms, a join and linear layers; shapes keep under most faults."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 8, 3, padding=1)
        self.norm = torch.nn.LayerNorm(8)
        self.square = torch.nn.Linear(8, 8)
        self.last = torch.nn.Linear(8, 8)

    def forward(self, image: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> Any:
        pooled = torch.nn.functional.avg_pool2d(torch.relu(self.conv(image)), 3, 1, 1)
        hidden = self.square(self.norm(x)).clamp(-0.7, 0.6)
        joined = torch.cat([hidden, y])[1:9]
        weights = torch.softmax(joined - y, 1)
        scaled = torch.nn.functional.leaky_relu(y, 0.1)
        return pooled, self.last(weights), scaled, weights.mean(1)


class Layers(torch.nn.Module):
    """What the quantizer takes: a convolution and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 8, 3, padding=1)
        self.first = torch.nn.Linear(16, 24)
        self.second = torch.nn.Linear(24, 16)

    def forward(self, image: torch.Tensor, x: torch.Tensor) -> Any:
        return torch.relu(self.conv(image)), self.second(torch.relu(self.first(x)))


NETWORK = Case(
    "planted/network",
    lambda: (Network(), (torch.randn(1, 4, 8, 8), torch.randn(8, 8), torch.randn(8, 8))),
)
LAYERS = Case("planted/layers", lambda: (Layers(), (torch.randn(1, 4, 8, 8), torch.randn(16, 16))))


def _find(graph: GraphModule, operator: str) -> list[Node]:
    return [node for node in graph.graph.nodes if operator in str(node.target)]


def set_argument(operator: str, place: int, change: Callable[[Any], Any]) -> Change:
    """Change an argument of every call of an operator; a default is given in full."""

    def apply(graph: GraphModule) -> bool:
        found = [node for node in _find(graph, operator) if len(node.args) > place]
        for node in found:
            before = node.args[place]
            node.update_arg(place, change(before))
            assert node.args[place] != before
        return bool(found)

    return apply


def swap(operator: str) -> Change:
    """Swap the first two operands of an operator, or the first two tensors of a list."""

    def apply(graph: GraphModule) -> bool:
        found = _find(graph, operator)
        for node in found:
            first: Any = node.args[0]
            if isinstance(first, list | tuple):
                node.update_arg(0, [first[1], first[0], *first[2:]])
            else:
                node.args = (node.args[1], node.args[0], *node.args[2:])
        return bool(found)

    return apply


def drop(operator: str) -> Change:
    """Replace an operator by its first operand."""

    def apply(graph: GraphModule) -> bool:
        found = _find(graph, operator)
        for node in found:
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
        return bool(found)

    return apply


def alter_constant(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    """Change a constant whose name contains a text."""

    def apply(graph: GraphModule) -> bool:
        paths = [str(node.target) for node in graph.graph.nodes if node.op == "get_attr"]
        found = [path for path in paths if name in path]
        for path in found:
            owner, _, attribute = path.rpartition(".")
            held = graph.get_submodule(owner)
            value = getattr(held, attribute)
            delattr(held, attribute)
            held.register_buffer(attribute, change(value.detach().clone()))
        return bool(found)

    return apply


def _raise_first(value: torch.Tensor) -> torch.Tensor:
    value.view(-1)[0] *= 1.1
    return value


@dataclass(frozen=True)
class PlantedFault:
    """A fault, with the case and the target that have to show it."""

    name: str
    change: Change
    case: Case = NETWORK
    target: str = "openvino:fp32"


_INT8 = "openvino:int8"

FAULTS = [
    PlantedFault("one wrong weight", alter_constant("square.weight", _raise_first)),
    PlantedFault("weights 0.1 % too large", alter_constant("conv.weight", lambda w: w * 1.001)),
    PlantedFault("bias of a layer dropped", alter_constant("last.bias", torch.zeros_like)),
    PlantedFault("bias of a convolution dropped", alter_constant("conv.bias", torch.zeros_like)),
    PlantedFault("flipped kernel", alter_constant("conv.weight", lambda w: w.flip(3))),
    PlantedFault("transposed weight", alter_constant("square.weight", lambda w: w.T.contiguous())),
    PlantedFault("wrong padding", set_argument("convolution", 4, lambda _: [0, 2])),
    PlantedFault("wrong axis of softmax", set_argument("_softmax", 1, lambda _: 0)),
    PlantedFault("wrong axis of mean", set_argument("mean.dim", 1, lambda _: [0])),
    PlantedFault("wrong start of a slice", set_argument("slice_copy", 2, lambda _: 2)),
    PlantedFault("wrong bound of clamp", set_argument("aten.clamp", 2, lambda _: 0.5)),
    PlantedFault("wrong slope", set_argument("leaky_relu", 1, lambda _: 0.2)),
    PlantedFault("wrong epsilon", set_argument("layer_norm", 4, lambda _: 1e-3)),
    PlantedFault("swapped operands", swap("aten.sub.Tensor")),
    PlantedFault("swapped tensors of a join", swap("aten.cat")),
    PlantedFault("dropped activation", drop("aten.relu")),
    PlantedFault("borders of a pool counted otherwise",
                 set_argument("avg_pool2d", 1, lambda _: [3, 1])),
    PlantedFault("int8: scale of activations 5 % too large",
                 set_argument("quantize_per_tensor", 1, lambda scale: scale * 1.05), LAYERS, _INT8),
    PlantedFault("int8: zero point one too high",
                 set_argument("quantize_per_tensor", 2, lambda zero: zero + 1), LAYERS, _INT8),
    PlantedFault("int8: scale of one channel 10 % too large",
                 alter_constant("scale", _raise_first), LAYERS, _INT8),
    PlantedFault("int8: weights 1 % too large",
                 alter_constant("floats", lambda w: w * 1.01), LAYERS, _INT8),
    PlantedFault("int8: bias dropped",
                 alter_constant("first.bias", torch.zeros_like), LAYERS, _INT8),
    PlantedFault("int8: dropped activation", drop("aten.relu"), LAYERS, _INT8),
]  # fmt: skip
