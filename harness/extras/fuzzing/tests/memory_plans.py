"""Check that a memory plan never gives the same bytes to two live values.

Two independent checks: lifetimes computed from the plan, and a run of the program in its arenas
that overwrites freed bytes.

Every value of a branch or loop body lives while its control flow node runs. Returned values are not
copied, and live as long as the results of that node.
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

from harness.passes.equality import describe_difference
from harness.vendors.torch import HigherOrderOperator, tree_leaves


@dataclass
class Allocation:
    """Bytes of an arena that hold a value, and the nodes between which they do.

    Attributes:
        name: name of the node that computes the value.
        arena: number of the arena.
        begin: the first byte.
        end: the byte after the last one.
        first: index of the node that writes it.
        last: index of the last node that reads it; infinite for outputs and state.
        inside: the control flow node whose branch or body it belongs to; empty for none. Branches
            exclude each other, and a body is checked separately.
    """

    name: str
    arena: int
    begin: int
    end: int
    first: float
    last: float
    inside: str = ""

    def overlaps(self, other: Allocation) -> bool:
        """Whether both need a byte at the same time."""
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


def find_overlaps(emitted: ExecutorchProgramManager) -> list[str]:
    """Describe pairs of live values that a plan assigns to the same bytes.

    Args:
        emitted: a program with planned memory.
    """
    program = emitted.exported_program()
    return [*_find_overlaps(program.graph, _find_buffers(program))]


def _find_overlaps(graph: Graph, kept: frozenset[Node]) -> Iterator[str]:
    spans = sorted(collect_allocations(graph, kept), key=lambda span: span.first)
    live: list[Allocation] = []
    for span in spans:
        live = [other for other in live if other.last >= span.first]
        yield from (f"{other} and {span}" for other in live if span.overlaps(other))
        live.append(span)
    for node in graph.nodes:
        for body in _bodies(node):
            yield from _find_overlaps(body.graph, frozenset())


def _find_buffers(program: ExportedProgram) -> frozenset[Node]:
    """Return the nodes of buffers, which a later call reads."""
    signature = program.graph_signature
    names = {spec.arg.name for spec in signature.input_specs if spec.kind is InputKind.BUFFER}
    return frozenset(node for node in program.graph.nodes if node.name in names)


def collect_allocations(graph: Graph, kept: frozenset[Node] = frozenset()) -> list[Allocation]:
    """Return the allocations of a graph's values in arenas.

    Args:
        graph: the emitted graph.
        kept: nodes whose values a later call reads.
    """
    nodes = {node: index for index, node in enumerate(graph.nodes)}
    last = _find_last_uses(nodes, kept)
    spans: list[Allocation] = []
    for node, index in nodes.items():
        if node.op not in ("placeholder", "call_function"):
            continue
        if node.target in (memory.alloc, memory.free) or _find_owner(node) is not node:
            continue
        if bodies := _bodies(node):  # the results of the node are values of its bodies
            for body in bodies:
                spans += _collect_in_body(body, node.name, index, last[node])
            continue
        first = 0 if node.op == "placeholder" else index
        spans += [
            _make_allocation(name, spec, first, until)
            for name, spec, until in _iterate_values(node, index, last)
        ]
    return spans


def _iterate_values(
    node: Node, index: int, last: dict[Node, float]
) -> Iterator[tuple[str, Any, float]]:
    """Yield each value that a node writes: its name, its spec, and the last node that reads it."""
    specs = _get_planned_specs(node)
    if len(specs) < 2:
        yield from ((node.name, spec, last[node]) for spec in specs)
        return
    elements = [each for each in last if _is_element(each) and _find_owner(each) is node]
    for at, spec in enumerate(specs):
        read = (last[each] for each in elements if each.args[1] == at)
        yield f"{node.name}[{at}]", spec, max(read, default=last[node] if not elements else index)


def _collect_in_body(body: GraphModule, name: str, at: float, last: float) -> Iterator[Allocation]:
    """Yield the values of a body while its node runs, and the values that it returns."""
    (output,) = (node for node in body.graph.nodes if node.op == "output")
    returned = {_find_owner(node) for node in output.all_input_nodes}
    for node in body.graph.nodes:
        if node.op != "call_function" or node.target in (memory.alloc, memory.free):
            continue
        for inner in _bodies(node):
            yield from _collect_in_body(inner, name, at, last if node in returned else at)
        if _find_owner(node) is node and not _bodies(node):
            until = last if node in returned else at
            for spec in _get_planned_specs(node):  # if one of several is returned, all live on
                yield replace(_make_allocation(node.name, spec, at, until), inside=name)


def _find_last_uses(nodes: dict[Node, int], kept: frozenset[Node]) -> dict[Node, float]:
    last: dict[Node, float] = dict(nodes)
    for node, index in nodes.items():
        read = math.inf if node.op == "output" else index
        if _is_element(node):
            continue  # selects one of several values; its users read that one
        for given in node.all_input_nodes:
            for each in _trace_views(given):
                last[each] = max(last[each], read)
    for node in kept:
        last[node] = math.inf
    return last


def _find_owner(node: Node) -> Node:
    """Return the node that wrote the memory of a node's value."""
    return _trace_views(node)[-1]


def _trace_views(node: Node) -> list[Node]:
    """Return a node, the node that it is a view or an element of, and so on up to the writer."""
    chain = [node]
    while (base := _find_base(chain[-1])) is not None:
        chain.append(base)
    return chain


def _find_base(node: Node) -> Node | None:
    given = node.args[0] if node.args else None
    if node.op != "call_function" or not isinstance(given, Node):
        return None
    if given.target is memory.alloc and _is_element(node):  # of an operator's out= argument
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
    """Return the branches or the body of a control flow node."""
    if not isinstance(node.target, HigherOrderOperator):
        return []
    module = node.graph.owning_module
    found = (getattr(module, str(each.target), None) for each in node.all_input_nodes
             if each.op == "get_attr")  # fmt: skip
    return [each for each in found if isinstance(each, GraphModule)]


def _get_planned_specs(node: Node) -> list[Any]:
    return [
        spec
        for spec in tree_leaves(node.meta.get("spec"))
        if getattr(spec, "mem_id", None) is not None and spec.mem_offset is not None
    ]


def _make_allocation(name: str, spec: Any, first: float, last: float) -> Allocation:
    end = spec.mem_offset + spec.nbytes()
    return Allocation(name, spec.mem_id, spec.mem_offset, end, first, last)


def find_use_after_free(
    emitted: ExecutorchProgramManager, calls: Sequence[Sequence[Any]]
) -> str | None:
    """Describe how the program's outputs depend on bytes that its plan has freed; None if not.

    Args:
        emitted: a program without delegates and with planned memory.
        calls: the leaves of the inputs of each call.
    """
    program = emitted.exported_program()
    with torch.no_grad(), warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")  # torch warns when dynamic outputs are resized
        runs = []
        for in_arenas in (False, True):
            torch.manual_seed(0)
            arenas = _Arenas(emitted) if in_arenas else None
            runs.append([*_run_calls(program, calls, arenas)])
    for call, (plain, planned) in enumerate(zip(*runs, strict=True)):
        for at, (one, other) in enumerate(zip(plain, planned, strict=True)):
            if (problem := describe_difference(one, other)) is not None:
                return f"output {at} of call {call} {problem}"
    return None


def _run_calls(
    program: ExportedProgram, calls: Sequence[Sequence[Any]], arenas: _Arenas | None
) -> Iterator[list[Any]]:
    signature = program.graph_signature
    state = {**program.state_dict, **program.constants}
    own_state = {name: value.clone() for name, value in state.items()}
    ends = {spec.arg.name: spec for spec in signature.output_specs}
    for call in calls:
        given = iter(call)
        flat = [
            next(given) if spec.kind is InputKind.USER_INPUT else own_state[spec.target or ""]
            for spec in signature.input_specs
        ]
        flat = [value.clone() if isinstance(value, torch.Tensor) else value for value in flat]
        runner = _PlannedInterpreter(program.graph_module, arenas, _find_buffers(program))
        returned = runner.run(*flat)
        for node, value in runner.buffers.items():
            own_state[signature.inputs_to_buffers[node.name]] = value.clone()
        outputs = [spec for spec in ends.values() if spec.kind is OutputKind.USER_OUTPUT]
        values = tree_leaves(returned)[-len(outputs) :] if outputs else []
        yield [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


class _Arenas:
    """The planned memory of a program."""

    def __init__(self, emitted: ExecutorchProgramManager) -> None:
        self._bytes: dict[int, torch.Tensor] = {}
        spans = [*_collect_in_all_graphs(emitted.exported_program().graph)]
        for arena in {span.arena for span in spans}:
            size = max(span.end for span in spans if span.arena == arena)
            self._bytes[arena] = torch.full((size,), 0xFF, dtype=torch.uint8)

    def make_tensor(self, spec: Any) -> torch.Tensor:
        """Make a tensor at its planned address."""
        begin, count = spec.mem_offset, spec.nbytes()
        raw = self._bytes[spec.mem_id][begin : begin + count]
        sizes = [int(size) for size in spec.shape]
        typed = raw.view(spec.dtype) if count else torch.empty(0, dtype=spec.dtype)
        return typed.as_strided(sizes, [int(step) for step in spec.stride], typed.storage_offset())

    def overwrite(self, span: Allocation) -> None:
        """Fill bytes with ones, which is NaN in every floating dtype."""
        self._bytes[span.arena][span.begin : span.end] = 0xFF


def _collect_in_all_graphs(graph: Graph) -> Iterator[Allocation]:
    yield from collect_allocations(graph)
    for node in graph.nodes:
        for body in _bodies(node):
            yield from _collect_in_all_graphs(body.graph)


class _PlannedInterpreter(torch.fx.Interpreter):
    """Runs an emitted graph in its arenas, and overwrites values after their last use; without
    arenas, each value has memory of its own."""

    def __init__(
        self, module: GraphModule, arenas: _Arenas | None, kept: frozenset[Node] = frozenset()
    ) -> None:
        super().__init__(module, garbage_collect_values=False)
        self._arenas = arenas
        self._index = {node: index for index, node in enumerate(module.graph.nodes)}
        self._spans = collect_allocations(module.graph, kept)
        self._kept = kept
        self.buffers: dict[Node, torch.Tensor] = {}

    def run_node(self, node: Node) -> Any:
        result = self._compute(node)
        if node in self._kept:
            self.buffers[node] = result
        if self._arenas is not None:
            index = self._index[node]
            for span in self._spans:
                if span.last == index and span.first < index:
                    self._arenas.overwrite(span)
        return result

    def _compute(self, node: Node) -> Any:
        arenas = self._arenas
        if _bodies(node) and getattr(node.target, "_name", "") == "cond":
            chosen, yes, no, operands = self.fetch_args_kwargs_from_env(node)[0]
            return _PlannedInterpreter(yes if chosen else no, arenas).run(*operands)
        if arenas is None:
            return super().run_node(node)
        if node.target is memory.alloc:
            specs = node.meta["spec"]
            if isinstance(specs, (list, tuple)) and isinstance(node.args[0], list):
                return [arenas.make_tensor(spec) for spec in specs]
            return arenas.make_tensor(specs[0] if isinstance(specs, (list, tuple)) else specs)
        result = super().run_node(node)
        if node.op == "placeholder" and (planned := _get_planned_specs(node)):
            placed = arenas.make_tensor(planned[0])
            if placed.shape != result.shape:  # a dynamic dimension, planned for its upper bound
                placed = placed.flatten()[: result.numel()].view(result.shape)
            return placed.copy_(result)
        return result
