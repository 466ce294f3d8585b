"""An ATen graph and what its nodes made in one eager run: values, and who wrote to which memory.

An exported graph is not functional: nodes write to their arguments, to inputs and to buffers, and
views share memory. What a node depends on is therefore not what it names alone, and is observed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from harness.model.case import Given, Inputs
from harness.numerics.module_runs import run_calls
from harness.vendors.torch import _PyTreeCodeGen, tree_leaves

Before = Callable[[int, Node, Mapping[Node, Any]], None]
"""Sees the number of the call, a node that is about to run, and the values that are there."""

After = Callable[[Node, Any], None]
"""Sees a node and what it made."""


class Watched(torch.nn.Module):
    """A graph that runs node by node, so that somebody sees every value when it is there.

    Args:
        graph: what runs; takes and returns what it does.
        before: looks before each node.
        after: looks after each node.
    """

    def __init__(
        self, graph: GraphModule, before: Before | None = None, after: After | None = None
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

        class Looking(Interpreter):
            def run_node(self, n: Node) -> Any:
                if before is not None:
                    before(call, n, self.env)
                value = super().run_node(n)
                if after is not None:
                    after(n, value)
                return value

        # What the graph takes are leaves, and what it returns are those of its outputs.
        leaves = _leaves(self.inner, inputs, named)
        return Looking(self.inner).run(*leaves, enable_io_processing=False)


def _leaves(graph: GraphModule, inputs: Inputs, named: dict[str, Any]) -> list[Any]:
    codegen = graph.graph._codegen
    if named and isinstance(codegen, _PyTreeCodeGen):
        order = codegen.pytree_info.in_spec.child(1).context
        named = {name: named[name] for name in order}
    return tree_leaves((inputs, named))


@dataclass(frozen=True)
class Seen:
    """What a node made in the first call.

    Attributes:
        value: a number, string or None as it is; None for tensors and everything else.
        dtype: of a tensor; None for another value.
        shape: of a tensor.
        memory: what identifies the memory of a tensor among those of the run; 0 for another value.
        is_number: it is an int, float or bool.
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
class Flow:
    """A graph with what was seen of it.

    Attributes:
        module: the graph; its state is left alone.
        seen: what each node made.
        sources: what each node was made of: its arguments, and whoever wrote to them last.
        writers: which nodes wrote to a memory, in order.
        varying: nodes whose value depends on inputs, or on state that the program writes.
    """

    module: GraphModule
    seen: dict[Node, Seen] = field(default_factory=dict)
    sources: dict[Node, tuple[Node, ...]] = field(default_factory=dict)
    writers: dict[int, list[Node]] = field(default_factory=dict)
    varying: set[Node] = field(default_factory=set)

    @classmethod
    def of(cls, module: GraphModule, calls: Sequence[Given]) -> Flow:
        """Run the first of the calls and look."""
        flow = cls(module)
        watcher = _Watcher(flow)
        run_calls(Watched(module, watcher.before, watcher.after), calls[:1])
        flow._carry_state()
        flow._find_varying()
        return flow

    @property
    def nodes(self) -> list[Node]:
        """All nodes in the order in which they run."""
        return list(self.module.graph.nodes)

    def is_written(self, node: Node) -> bool:
        """Whether somebody writes to the memory of a node's value."""
        return bool(self.writers.get(self.seen[node].memory)) if node in self.seen else False

    def is_overwritten(self, node: Node) -> bool:
        """Whether the value of a node is another one at the end of the call."""
        order = {each: place for place, each in enumerate(self.nodes)}
        writers = self.writers.get(self.seen[node].memory, ())
        return any(order[writer] > order[node] for writer in writers)

    def is_alias(self, node: Node, of: Node) -> bool:
        """Whether two values share memory."""
        memory = self.seen[node].memory
        return memory != 0 and of in self.seen and self.seen[of].memory == memory

    def behind(self, ends: Iterable[Node], stops: Callable[[Node], bool]) -> list[Node]:
        """What some nodes were made of, themselves included, in the order of the graph.

        Args:
            ends: where to begin.
            stops: whether to look behind a node that is met; it is part of the answer.
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

    def _carry_state(self) -> None:
        """State that is read was written by the call before."""
        for node, seen in self.seen.items():
            if node.op == "get_attr" and self.writers.get(seen.memory):
                self.sources[node] = (self.writers[seen.memory][-1],)

    def _find_varying(self) -> None:
        for node in self.nodes:
            starts = node.op == "placeholder" or (node.op == "get_attr" and self.is_written(node))
            if starts or any(source in self.varying for source in self.sources.get(node, ())):
                self.varying.add(node)


class _Watcher:
    """Fills a flow while the graph runs."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._numbers = itertools.count(1)
        self._memories: dict[int, int] = {}
        self._given: list[tuple[torch.Tensor, int]] = []

    def before(self, call: int, node: Node, values: Mapping[Node, Any]) -> None:
        given = [leaf for source in node.all_input_nodes for leaf in tensors(values[source])]
        self._given = [(leaf, leaf._version) for leaf in given]
        if node.op == "call_function":
            writers = (self._last_writer(leaf) for leaf in given)
            sources = (*node.all_input_nodes, *(writer for writer in writers if writer is not None))
            self._flow.sources[node] = tuple(dict.fromkeys(sources))

    def after(self, node: Node, value: Any) -> None:
        for leaf, version in self._given:
            if leaf._version != version:
                known = self._flow.writers.setdefault(self._memories[_place(leaf)], [])
                if node not in known:
                    known.append(node)
        given = {_place(leaf) for leaf, _ in self._given}
        for leaf in tensors(value):
            # Memory that was freed comes again; what is neither an argument's nor state is new.
            is_kept = _place(leaf) in given or node.op == "get_attr"
            if not is_kept or _place(leaf) not in self._memories:
                self._memories[_place(leaf)] = next(self._numbers)
        self._given = []
        self._flow.seen[node] = self._describe(value)

    def _describe(self, value: Any) -> Seen:
        if isinstance(value, torch.Tensor):
            memory = self._memories[_place(value)]
            return Seen(None, value.dtype, tuple(value.shape), memory)
        if isinstance(value, (bool, int, float)):
            return Seen(value, is_number=True)
        return Seen(value) if value is None or isinstance(value, str) else Seen()

    def _last_writer(self, leaf: torch.Tensor) -> Node | None:
        writers = self._flow.writers.get(self._memories[_place(leaf)])
        return writers[-1] if writers else None


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors among the leaves of a value."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
