"""A prepared graph whose observers can be replaced by functions while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from harness.pipeline.explain.node_origin import find_nearest_source, get_operator_name


@dataclass(frozen=True, eq=False)
class Place:
    """A place in a prepared graph at which a tensor is observed.

    Attributes:
        node: the call of the observer.
        source: the node whose result is observed.
        observer: the observer; several places may share one.
        graph: the graph of the node: the whole one, or a nested one.
    """

    node: Node
    source: Node
    observer: Any
    graph: GraphModule

    @property
    def name(self) -> str:
        """The name of the value: that of a weight in the module, else that of its node."""
        return str(self.source.target) if self.source.op == "get_attr" else self.source.name

    def __str__(self) -> str:
        return describe_node(self.source)


def describe_node(node: Node) -> str:
    """Return a node's name with its operator and its line of the model, as far as it has them."""
    operator = get_operator_name(node) if node.op == "call_function" else ""
    parts = ", ".join(filter(None, (operator, find_nearest_source(node))))
    name = str(node.target) if node.op == "get_attr" else node.name
    return f"{name} ({parts})" if parts else name


def find_observers(prepared: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the observers and fake quantizers of a prepared graph, nested graphs included."""
    return [module for module in prepared.modules() if is_observer(module)]


def is_observer(module: torch.nn.Module) -> bool:
    """Whether a module is an observer or a fake quantizer of torch or torchao."""
    from torch.ao.quantization import ObserverBase as TorchObserver
    from torchao.quantization.pt2e import ObserverBase

    return isinstance(module, (ObserverBase, TorchObserver)) or is_fake_quantizer(module)


def is_fake_quantizer(module: torch.nn.Module) -> bool:
    """Whether a module observes and rounds at once, as for quantization-aware training."""
    from torch.ao.quantization import FakeQuantizeBase as TorchFakeQuantize
    from torchao.quantization.pt2e import FakeQuantizeBase

    return isinstance(module, (FakeQuantizeBase, TorchFakeQuantize))


def find_places(prepared: GraphModule) -> list[Place]:
    """Return the places of a prepared graph at which tensors are observed, in order."""
    return [
        Place(node, node.args[0], observer, graph)
        for graph in prepared.modules()
        if isinstance(graph, GraphModule)
        for node in graph.graph.nodes
        if node.op == "call_module"
        and isinstance(node.args[0], Node)
        and is_observer(observer := graph.get_submodule(node.target))
    ]


def list_writers(graph: GraphModule) -> list[Node]:
    """Return the calls of operators that write to an argument, nested graphs included."""
    return [
        node
        for part in graph.modules()
        if isinstance(part, GraphModule)
        for node in part.graph.nodes
        if node.op == "call_function"
        and (schema := getattr(node.target, "_schema", None)) is not None
        and schema.is_mutable
    ]


Replace = Callable[[Place, torch.Tensor], torch.Tensor]
"""Takes a place and the value there; returns the value that the graph goes on with."""


def keep(place: Place, value: torch.Tensor) -> torch.Tensor:
    """Return the value: the graph computes what the float model computes."""
    return value


class _Replacement(torch.nn.Module):
    def __init__(self, place: Place, replace: Replace) -> None:
        super().__init__()
        self._place, self._replace = place, replace

    def forward(self, value: Any) -> Any:
        is_tensor = isinstance(value, torch.Tensor) and value.is_floating_point()
        return self._replace(self._place, value) if is_tensor else value


@contextmanager
def replace_observers(places: Sequence[Place], replace: Replace = keep) -> Iterator[None]:
    """Run a prepared graph with a function at every place; its observers record nothing then."""
    for place in places:
        place.graph.set_submodule(str(place.node.target), _Replacement(place, replace))
    try:
        yield
    finally:
        for place in places:
            place.graph.set_submodule(str(place.node.target), place.observer)
