"""``trace``: the first node of a model where a target leaves the oracle, and whether it errs."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch.fx import Node

from harness.errors import UsageError
from harness.execution.process_lock import exclusive
from harness.model.backend import Backend
from harness.model.case import Case, Inputs
from harness.model.recipe import Recipe
from harness.pipeline.reference.assumed_precision import semantics_of
from harness.pipeline.tester import Tester
from harness.record.target import Target
from harness.tracing.isolated_nodes import Windows
from harness.tracing.measurements import node_found
from harness.tracing.search import TAPS, Search
from harness.tracing.trace_result import Found, NodeFound
from harness.tracing.trial import UNSUPPORTED, Bench, Outcome, Say
from harness.tracing.value_flow import Flow


def trace(
    case_or_module: Case | torch.nn.Module,
    target: Target | str,
    inputs: Inputs | None = None,
    seed: int = 0,
    *,
    recipe: Recipe | None = None,
    backend: Backend | None = None,
    all_nodes: bool = False,
    taps: int = TAPS,
    say: Say | None = None,
    isolate: bool = False,
    seconds: float | None = None,
    ran: Tester | None = None,
) -> Found:
    """Find the first node of a model whose value on a target exceeds its bound.

    The exported graph, quantized where the recipe quantizes, goes through the target's own pipeline
    again with values of its nodes as further outputs; each is held against its own exact value and
    its own bound. Whatever executes, this needs no help of the runtime's.

    Args:
        case_or_module: what is traced.
        target: where, ``backend:recipe``.
        inputs: positional inputs of a module, a tuple; not for a case, which has its own.
        seed: run seed of a case.
        recipe: used instead of the one that the target names.
        backend: used instead of the one that the target names.
        all_nodes: look at every node, of a green program as well.
        taps: how many values a program returns at most.
        say: hears what is being done.
        isolate: execute in a child process, which a program may crash.
        seconds: what it may take; what was found until then is returned, and says so. A program
            that is being lowered is not interrupted.
        ran: the case on the target, run and compared, which is then not done again.

    Raises:
        UnknownTarget: no such backend or recipe.
        ConflictingOptions: the case draws random numbers.
        UsageError: inputs are missing or too many, nothing here executes for the target, or it
            declares that it does not do this.
    """
    case = as_case(case_or_module, inputs)
    bench = Bench(case, target, seed, recipe, backend, say, isolate=isolate, seconds=seconds)
    if not bench.executes:
        raise UsageError(f"{bench.target} cannot execute here: {bench.unavailable}")
    if ran is not None:
        whole = bench.resumed(ran)
    else:
        bench.say("running the program as it is")
        whole = bench.whole()
    return found_in(bench, whole, all_nodes=all_nodes, taps=taps)


def as_case(case_or_module: Case | torch.nn.Module, inputs: Inputs | None) -> Case:
    """The case, or one around a module and its inputs.

    Raises:
        UsageError: a module without inputs, or a case with.
    """
    if isinstance(case_or_module, Case):
        if inputs is not None:
            raise UsageError(f"case {case_or_module.name!r} has its own inputs; give it alone")
        return case_or_module
    if inputs is None:
        raise UsageError("a module is traced with inputs: pass them as a tuple")
    return Case.from_module(type(case_or_module).__name__, case_or_module, inputs)


def found_in(bench: Bench, whole: Outcome, *, all_nodes: bool, taps: int = TAPS) -> Found:
    """What there is to find in a program that was run.

    Raises:
        UsageError: its recipe declares that it does not do this.
    """
    if whole.stage == UNSUPPORTED:
        raise UsageError(f"{bench.cell} is unsupported, there is nothing to trace: {whole.error}")
    runtime = "none"
    if whole.verdict is not None and whole.tester is not None:
        runtime = whole.tester.execution.runtime
    plain = Found(
        bench.cell, bench.seed, runtime, whole.stage, whole.problem, programs=bench.programs
    )
    if whole.tester is None or whole.verdict is None:
        return replace(plain, note="there are no values to compare")
    if not whole.is_red and not all_nodes:
        return plain
    search = search_in(bench, whole, taps)
    first = None
    start = search.first(whole) if whole.is_red else None
    if start is not None:
        first = judged(search, *start)
        while (earlier := _earlier(search, start, first)) is not None:
            start, first = earlier, judged(search, *earlier)
    if all_nodes:
        search.look_at_all()
    known = set(search.known)
    nodes = [node_found(search.flow, node, known, each) for node, each in search.measured.items()]
    nodes.sort(key=lambda each: (each.problem is None, -each.bound_used))
    note = search.note
    if whole.is_red and start is None:
        note = "what is wrong is no value of a node: the number, tree or kind of the outputs"
    return replace(
        plain,
        first=first,
        nodes=tuple(nodes),
        path=() if first is None or first.born is not False else path_to(search, *start or ()),
        note=note,
        given_up=search.given_up,
        candidates=len(search.known),
        rounds=search.rounds,
        programs=bench.programs,
    )


def _earlier(search: Search, start: tuple[Node, int], first: NodeFound) -> tuple[Node, int] | None:
    """A wrong node before one that inherits its error, or that errs together with others only."""
    if first.born is False:
        return search.wider(start)
    return search.among(first.together, start) if len(first.together) > 1 else None


def search_in(bench: Bench, whole: Outcome, taps: int = TAPS) -> Search:
    """A search in the graph of a program that was lowered."""
    assert whole.tester is not None
    calls = whole.tester.built.calls
    with exclusive():
        flow = Flow.of(bench.graph_of(whole.tester), calls)
    return Search(bench, flow, calls, taps)


def windows_at(search: Search, call: int) -> Windows:
    """Programs of a few nodes, handed the values of one call."""
    calls = (*search.calls, search.calls[-1])  # the last one again, where state is observed
    semantics = semantics_of(search.bench.recipe)
    return Windows(search.flow, calls, call, frozenset(search.known), semantics)


def judged(search: Search, node: Node, call: int) -> NodeFound:
    """The row of the first wrong node, with where its error was born."""
    known = set(search.known)
    row = node_found(search.flow, node, known, search.measured[node])
    windows = windows_at(search, call)
    tried = False
    for nodes in windows.around(node):
        if not search.bench.has_time:
            return replace(row, born=None)
        search.bench.say(f"{len(nodes)} nodes alone, fed the oracle's values")
        outcome = search.bench.attempt(windows.program(nodes, node))
        tried = tried or outcome.stage is None
        if outcome.stage is None and outcome.is_red:
            return replace(row, born=True, together=tuple(each.name for each in nodes))
    return replace(row, born=False if tried else None)


def path_to(search: Search, node: Node, call: int) -> tuple[str, ...]:
    """The nodes through which an inherited error came, each the one before it that uses most of its
    bound."""
    path: list[str] = []
    current: Node | None = node
    while current is not None and len(path) < 20:
        path.append(f"{current.name} {search.measured[current].worst.bound_used:.3g}")
        before = [
            source
            for source in search.flow.behind([current], lambda each: each in search.measured)
            if source in search.measured and source is not current
        ]
        current = max(before, key=lambda each: search.measured[each].worst.bound_used, default=None)
    return tuple(reversed(path))
