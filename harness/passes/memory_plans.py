"""Whether a memory plan gives bytes of an arena to two values at once: by the plan itself, with
lifetimes of our own, and by running the program in its arenas with freed bytes spoilt.

Of a branch or loop body every value lives while its node runs; what it returns is not copied, and
lives for as long as the results of that node do.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from executorch.exir import ExecutorchProgramManager, memory
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Graph, GraphModule, Node

from harness.passes.equality import unequal
from harness.vendors.torch import HigherOrderOperator, tree_leaves


@dataclass
class Span:
    """Bytes of an arena that hold a value, and the nodes between which they do.

    Attributes:
        name: of the node that makes it.
        arena: its number.
        begin: the first byte.
        end: behind the last one.
        first: index of the node that writes it.
        last: index of the last node that reads it; infinite for what the program returns and keeps.
        inside: the node of control flow whose branch or body it is from; empty for none. Branches
            exclude each other, and a body is looked at on its own.
    """

    name: str
    arena: int
    begin: int
    end: int
    first: float
    last: float
    inside: str = ""

    def clashes(self, other: Span) -> bool:
        """Whether both need a byte at once."""
        return (
            self.arena == other.arena
            and not (self.inside and self.inside == other.inside)
            and max(self.begin, other.begin) < min(self.end, other.end)
            and max(self.first, other.first) <= min(self.last, other.last)
        )

    def __str__(self) -> str:
        until = "the end" if math.isinf(self.last) else self.last
        return (
            f"{self.name} (bytes {self.begin} to {self.end} of arena {self.arena}, nodes "
            f"{self.first} to {until})"
        )


def clashes(emitted: ExecutorchProgramManager) -> list[str]:
    """Pairs of values that a plan has given the same bytes at once.

    Args:
        emitted: a program whose memory is planned.
    """
    program = emitted.exported_program()
    return [*_clashes(program.graph, _kept(program))]


def _clashes(graph: Graph, kept: frozenset[Node]) -> Iterator[str]:
    spans = sorted(lifetimes(graph, kept), key=lambda span: span.first)
    live: list[Span] = []
    for span in spans:
        live = [other for other in live if other.last >= span.first]
        yield from (f"{other} and {span}" for other in live if span.clashes(other))
        live.append(span)
    for node in graph.nodes:
        for body in _bodies(node):
            yield from _clashes(body.graph, frozenset())


def _kept(program: ExportedProgram) -> frozenset[Node]:
    """The buffers, which a later call reads."""
    signature = program.graph_signature
    names = {spec.arg.name for spec in signature.input_specs if spec.kind is InputKind.BUFFER}
    return frozenset(node for node in program.graph.nodes if node.name in names)


def lifetimes(graph: Graph, kept: frozenset[Node] = frozenset()) -> list[Span]:
    """The values of a graph that lie in an arena.

    Args:
        graph: as it is emitted.
        kept: nodes whose values a later call reads.
    """
    nodes = {node: index for index, node in enumerate(graph.nodes)}
    last = _last_uses(nodes, kept)
    spans: list[Span] = []
    for node, index in nodes.items():
        if node.op not in ("placeholder", "call_function"):
            continue
        if node.target in (memory.alloc, memory.free) or _owner(node) is not node:
            continue
        if bodies := _bodies(node):  # its results are what these return
            for body in bodies:
                spans += _inside(body, node.name, index, last[node])
            continue
        first = 0 if node.op == "placeholder" else index
        spans += [
            _span(name, spec, first, until) for name, spec, until in _values(node, index, last)
        ]
    return spans


def _values(node: Node, index: int, last: dict[Node, float]) -> Iterator[tuple[str, Any, float]]:
    """Each value that a node writes: its name, its place, and the last node that reads it."""
    specs = _planned(node)
    if len(specs) < 2:
        yield from ((node.name, spec, last[node]) for spec in specs)
        return
    elements = [each for each in last if _is_element(each) and _owner(each) is node]
    for at, spec in enumerate(specs):
        read = (last[each] for each in elements if each.args[1] == at)
        yield f"{node.name}[{at}]", spec, max(read, default=last[node] if not elements else index)


def _inside(body: GraphModule, name: str, at: float, last: float) -> Iterator[Span]:
    """The values of a body while its node runs, and those that it returns."""
    (output,) = (node for node in body.graph.nodes if node.op == "output")
    returned = {_owner(node) for node in output.all_input_nodes}
    for node in body.graph.nodes:
        if node.op != "call_function" or node.target in (memory.alloc, memory.free):
            continue
        for inner in _bodies(node):
            yield from _inside(inner, name, at, last if node in returned else at)
        if _owner(node) is node and not _bodies(node):
            until = last if node in returned else at
            for spec in _planned(node):  # of several, all that one of them is returned
                yield replace(_span(node.name, spec, at, until), inside=name)


def _last_uses(nodes: dict[Node, int], kept: frozenset[Node]) -> dict[Node, float]:
    last: dict[Node, float] = dict(nodes)
    for node, index in nodes.items():
        read = math.inf if node.op == "output" else index
        if _is_element(node):
            continue  # picks one of several; who reads it, reads that one
        for given in node.all_input_nodes:
            for each in _chain(given):
                last[each] = max(last[each], read)
    for node in kept:
        last[node] = math.inf
    return last


def _owner(node: Node) -> Node:
    """The node that wrote the bytes which a node's value lies in."""
    return _chain(node)[-1]


def _chain(node: Node) -> list[Node]:
    """A node, what it is a view or an element of, and so on up to what wrote it."""
    chain = [node]
    while (base := _base(chain[-1])) is not None:
        chain.append(base)
    return chain


def _base(node: Node) -> Node | None:
    given = node.args[0] if node.args else None
    if node.op != "call_function" or not isinstance(given, Node):
        return None
    if given.target is memory.alloc and _is_element(node):  # of what an operator wrote there
        return next((user for user in given.users if user.kwargs.get("out") is given), None)
    if node.target is memory.view or _is_element(node):
        return given
    schema: Any = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable or any(one.is_out for one in schema.arguments):
        return None
    return given


def _is_element(node: Node) -> bool:
    return getattr(node.target, "__name__", "") == "getitem"


def _bodies(node: Node) -> list[GraphModule]:
    """The branches or the body of a node of control flow."""
    if not isinstance(node.target, HigherOrderOperator):
        return []
    module = node.graph.owning_module
    found = (getattr(module, str(each.target), None) for each in node.all_input_nodes
             if each.op == "get_attr")  # fmt: skip
    return [each for each in found if isinstance(each, GraphModule)]


def _planned(node: Node) -> list[Any]:
    return [
        spec
        for spec in tree_leaves(node.meta.get("spec"))
        if getattr(spec, "mem_id", None) is not None and spec.mem_offset is not None
    ]


def _span(name: str, spec: Any, first: float, last: float) -> Span:
    return Span(name, spec.mem_id, spec.mem_offset, spec.mem_offset + spec.nbytes(), first, last)


def spoilt(emitted: ExecutorchProgramManager, calls: Sequence[Sequence[Any]]) -> str | None:
    """How what a program returns depends on bytes that its plan has freed, or None.

    Args:
        emitted: a program without delegates whose memory is planned.
        calls: the leaves of the inputs of each call.
    """
    program = emitted.exported_program()
    with torch.no_grad(), warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")  # dynamic outputs shrink
        runs = []
        for in_arenas in (False, True):
            torch.manual_seed(0)
            arenas = _Arenas(emitted) if in_arenas else None
            runs.append([*_run(program, calls, arenas)])
    for call, (plain, planned) in enumerate(zip(*runs, strict=True)):
        for at, (one, other) in enumerate(zip(plain, planned, strict=True)):
            if (problem := unequal(one, other)) is not None:
                return f"output {at} of call {call} {problem}"
    return None


def _run(
    program: ExportedProgram, calls: Sequence[Sequence[Any]], arenas: _Arenas | None
) -> Iterator[list[Any]]:
    signature = program.graph_signature
    state = {**program.state_dict, **program.constants}
    held = {name: value.clone() for name, value in state.items()}
    ends = {spec.arg.name: spec for spec in signature.output_specs}
    for call in calls:
        given = iter(call)
        flat = [
            next(given) if spec.kind is InputKind.USER_INPUT else held[spec.target or ""]
            for spec in signature.input_specs
        ]
        flat = [value.clone() if isinstance(value, torch.Tensor) else value for value in flat]
        runner = _Planned(program.graph_module, arenas, _kept(program))
        returned = runner.run(*flat)
        for node, value in runner.kept.items():
            held[signature.inputs_to_buffers[node.name]] = value.clone()
        kept = [spec for spec in ends.values() if spec.kind is OutputKind.USER_OUTPUT]
        values = tree_leaves(returned)[-len(kept) :] if kept else []
        yield [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


class _Arenas:
    """The memory of a program."""

    def __init__(self, emitted: ExecutorchProgramManager) -> None:
        self._bytes: dict[int, torch.Tensor] = {}
        spans = [*_everywhere(emitted.exported_program().graph)]
        for arena in {span.arena for span in spans}:
            size = max(span.end for span in spans if span.arena == arena)
            self._bytes[arena] = torch.full((size,), 0xFF, dtype=torch.uint8)

    def place(self, spec: Any) -> torch.Tensor:
        """A tensor where the plan has it."""
        begin, count = spec.mem_offset, spec.nbytes()
        raw = self._bytes[spec.mem_id][begin : begin + count]
        sizes = [int(size) for size in spec.shape]
        typed = raw.view(spec.dtype) if count else torch.empty(0, dtype=spec.dtype)
        return typed.as_strided(sizes, [int(step) for step in spec.stride], typed.storage_offset())

    def spoil(self, span: Span) -> None:
        """Fill bytes with ones, which is no number of any floating dtype."""
        self._bytes[span.arena][span.begin : span.end] = 0xFF


def _everywhere(graph: Graph) -> Iterator[Span]:
    yield from lifetimes(graph)
    for node in graph.nodes:
        for body in _bodies(node):
            yield from _everywhere(body.graph)


class _Planned(torch.fx.Interpreter):
    """Runs an emitted graph where its plan puts values, and spoils what nobody reads any more;
    without arenas, each value in memory of its own."""

    def __init__(
        self, module: GraphModule, arenas: _Arenas | None, kept: frozenset[Node] = frozenset()
    ) -> None:
        super().__init__(module, garbage_collect_values=False)
        self._arenas = arenas
        self._index = {node: index for index, node in enumerate(module.graph.nodes)}
        self._spans = lifetimes(module.graph, kept)
        self._kept = kept
        self.kept: dict[Node, torch.Tensor] = {}

    def run_node(self, node: Node) -> Any:
        result = self._result(node)
        if node in self._kept:
            self.kept[node] = result
        if self._arenas is not None:
            index = self._index[node]
            for span in self._spans:
                if span.last == index and span.first < index:
                    self._arenas.spoil(span)
        return result

    def _result(self, node: Node) -> Any:
        arenas = self._arenas
        if _bodies(node) and getattr(node.target, "_name", "") == "cond":
            chosen, yes, no, operands = self.fetch_args_kwargs_from_env(node)[0]
            return _Planned(yes if chosen else no, arenas).run(*operands)
        if arenas is None:
            return super().run_node(node)
        if node.target is memory.alloc:
            specs = node.meta["spec"]
            if isinstance(specs, (list, tuple)) and isinstance(node.args[0], list):
                return [arenas.place(spec) for spec in specs]
            return arenas.place(specs[0] if isinstance(specs, (list, tuple)) else specs)
        result = super().run_node(node)
        if node.op == "placeholder" and (planned := _planned(node)):
            placed = arenas.place(planned[0])
            if placed.shape != result.shape:  # of a dynamic size, planned for the largest
                placed = placed.flatten()[: result.numel()].view(result.shape)
            return placed.copy_(result)
        return result
