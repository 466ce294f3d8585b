"""Observes an ATen graph in one eager run: the values of its nodes, and which node writes which
memory.

An exported graph is not functional: nodes write to their arguments, to inputs and to buffers, and
views share memory. A node therefore depends on more than its arguments; this is observed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from harness.model.case import CallInputs, Inputs
from harness.numerics.module_runs import run_calls
from harness.vendors.torch import _PyTreeCodeGen, tree_leaves

BeforeNode = Callable[[int, Node, Mapping[Node, Any]], None]
"""Called with the number of the call, a node that is about to run, and the values so far."""

AfterNode = Callable[[Node, Any], None]
"""Called with a node and its value."""


class ObservedGraph(torch.nn.Module):
    """A graph that runs node by node and calls back with every value.

    Args:
        graph: the graph; inputs and outputs are the same.
        before: called before each node.
        after: called after each node.
    """

    def __init__(
        self, graph: GraphModule, before: BeforeNode | None = None, after: AfterNode | None = None
    ) -> None:
        super().__init__()
        self.inner = graph
        self._before = before
        self._after = after
        self._calls = 0

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Run one call."""
        call, before, after = self._calls, self._before, self._after
        self._calls += 1

        class ObservingInterpreter(Interpreter):
            def run_node(self, n: Node) -> Any:
                if before is not None:
                    before(call, n, self.env)
                value = super().run_node(n)
                if after is not None:
                    after(n, value)
                return value

        # The graph takes leaves, and returns the leaves of its outputs.
        leaves = _leaves(self.inner, inputs, named)
        return ObservingInterpreter(self.inner).run(*leaves, enable_io_processing=False)


def _leaves(graph: GraphModule, inputs: Inputs, named: dict[str, Any]) -> list[Any]:
    codegen = graph.graph._codegen
    if named and isinstance(codegen, _PyTreeCodeGen):
        order = codegen.pytree_info.in_spec.child(1).context
        named = {name: named[name] for name in order}
    return tree_leaves((inputs, named))


@dataclass(frozen=True)
class ObservedValue:
    """The value of a node in the first call.

    Attributes:
        value: a number, string or None; None for tensors and everything else.
        dtype: of a tensor; None for another value.
        shape: of a tensor.
        memory: identifies the memory of a tensor in this run; 0 for another value.
        is_number: whether it is an int, float or bool.
    """

    value: Any = None
    dtype: torch.dtype | None = None
    shape: tuple[int, ...] = ()
    memory: int = 0
    is_number: bool = False

    @property
    def elements(self) -> int:
        """How many numbers a tensor has."""
        return torch.Size(self.shape).numel() if self.dtype is not None else 0

    def __str__(self) -> str:
        if self.dtype is None:
            return str(self.value)
        return f"{str(self.dtype).removeprefix('torch.')}{list(self.shape)}"


@dataclass
class ValueFlow:
    """A graph with the values and memory writes observed in one run.

    Attributes:
        module: the graph; its state is not changed.
        observed: the value of each node.
        sources: dependencies of each node: its arguments and the nodes that last wrote to them.
        writers: the nodes that wrote to a memory, in order.
        input_dependent: nodes whose value depends on inputs, or on state that the program writes.
    """

    module: GraphModule
    observed: dict[Node, ObservedValue] = field(default_factory=dict)
    sources: dict[Node, tuple[Node, ...]] = field(default_factory=dict)
    writers: dict[int, list[Node]] = field(default_factory=dict)
    input_dependent: set[Node] = field(default_factory=set)

    @classmethod
    def observe(cls, module: GraphModule, calls: Sequence[CallInputs]) -> ValueFlow:
        """Run the first call and observe it."""
        flow = cls(module)
        observer = _FlowObserver(flow)
        run_calls(ObservedGraph(module, observer.before, observer.after), calls[:1])
        flow._link_state()
        flow._find_input_dependent()
        return flow

    @property
    def nodes(self) -> list[Node]:
        """All nodes in execution order."""
        return list(self.module.graph.nodes)

    def is_written(self, node: Node) -> bool:
        """Whether a node writes to the memory of this node's value."""
        return (
            bool(self.writers.get(self.observed[node].memory)) if node in self.observed else False
        )

    def is_alias(self, node: Node, other: Node) -> bool:
        """Whether two values share memory."""
        memory = self.observed[node].memory
        return memory != 0 and other in self.observed and self.observed[other].memory == memory

    def find_ancestors(self, ends: Iterable[Node], stops: Callable[[Node], bool]) -> list[Node]:
        """Return the nodes that some nodes depend on, themselves included, in graph order.

        Args:
            ends: the nodes to begin with.
            stops: whether to stop at a node; that node is part of the result.
        """
        found = set(ends)
        open_nodes = list(found)
        while open_nodes:
            for source in self.sources.get(open_nodes.pop(), ()):
                if source not in found:
                    found.add(source)
                    if not stops(source):
                        open_nodes.append(source)
        return [node for node in self.nodes if node in found]

    def _link_state(self) -> None:
        """State that is read depends on the last node that wrote it, in the call before."""
        for node, seen in self.observed.items():
            if node.op == "get_attr" and self.writers.get(seen.memory):
                self.sources[node] = (self.writers[seen.memory][-1],)

    def _find_input_dependent(self) -> None:
        for node in self.nodes:
            starts = node.op == "placeholder" or (node.op == "get_attr" and self.is_written(node))
            if starts or any(
                source in self.input_dependent for source in self.sources.get(node, ())
            ):
                self.input_dependent.add(node)


class _FlowObserver:
    """Fills a flow while the graph runs."""

    def __init__(self, flow: ValueFlow) -> None:
        self._flow = flow
        self._numbers = itertools.count(1)
        self._memories: dict[int, int] = {}
        self._given: list[tuple[torch.Tensor, int]] = []

    def before(self, call: int, node: Node, values: Mapping[Node, Any]) -> None:
        given = [leaf for source in node.all_input_nodes for leaf in find_tensors(values[source])]
        self._given = [(leaf, leaf._version) for leaf in given]
        if node.op == "call_function":
            writers = (self._last_writer(leaf) for leaf in given)
            sources = (*node.all_input_nodes, *(writer for writer in writers if writer is not None))
            self._flow.sources[node] = tuple(dict.fromkeys(sources))

    def after(self, node: Node, value: Any) -> None:
        for leaf, version in self._given:
            if leaf._version != version:
                known = self._flow.writers.setdefault(self._memories[_storage_address(leaf)], [])
                if node not in known:
                    known.append(node)
        given = {_storage_address(leaf) for leaf, _ in self._given}
        for leaf in find_tensors(value):
            # Freed addresses are reused: memory of neither an argument nor state is new.
            is_kept = _storage_address(leaf) in given or node.op == "get_attr"
            if not is_kept or _storage_address(leaf) not in self._memories:
                self._memories[_storage_address(leaf)] = next(self._numbers)
        self._given = []
        self._flow.observed[node] = self._describe(value)

    def _describe(self, value: Any) -> ObservedValue:
        if isinstance(value, torch.Tensor):
            memory = self._memories[_storage_address(value)]
            return ObservedValue(None, value.dtype, tuple(value.shape), memory)
        if isinstance(value, (bool, int, float)):
            return ObservedValue(value, is_number=True)
        return ObservedValue(value) if value is None or isinstance(value, str) else ObservedValue()

    def _last_writer(self, leaf: torch.Tensor) -> Node | None:
        writers = self._flow.writers.get(self._memories[_storage_address(leaf)])
        return writers[-1] if writers else None


def find_tensors(value: Any) -> list[torch.Tensor]:
    """Return the tensors among the leaves of a value."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _storage_address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
