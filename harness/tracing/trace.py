"""``trace``: find the first node of a model where a target diverges from the oracle."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch.fx import Node

from harness.errors import UsageError
from harness.execution.process_lock import hold_process_lock
from harness.model.backend import Backend
from harness.model.case import Case, Inputs
from harness.model.recipe import Recipe
from harness.pipeline.reference.assumed_precision import get_semantics
from harness.pipeline.tester import Tester
from harness.record.target import Target
from harness.tracing.isolated_nodes import WindowBuilder
from harness.tracing.measurements import describe_node
from harness.tracing.search import MAX_TAPS, DivergenceSearch
from harness.tracing.trace_result import Found, TracedNode
from harness.tracing.trial import UNSUPPORTED, ProgressCallback, TrialResult, TrialRunner
from harness.tracing.value_flow import ValueFlow


def trace(  # noqa: PLR0913 (each of the public function's options is independent)
    case_or_module: Case | torch.nn.Module,
    target: Target | str,
    inputs: Inputs | None = None,
    seed: int = 0,
    *,
    recipe: Recipe | None = None,
    backend: Backend | None = None,
    all_nodes: bool = False,
    taps: int = MAX_TAPS,
    on_progress: ProgressCallback | None = None,
    isolate: bool = False,
    seconds: float | None = None,
    finished_tester: Tester | None = None,
) -> Found:
    """Find the first node of a model whose value on a target exceeds its bound.

    The exported graph (quantized where the recipe quantizes) goes through the target's own pipeline
    again, with values of its nodes as additional outputs. Each value is compared with its own exact
    value and its own bound. The runtime needs no tracing support.

    Args:
        case_or_module: the case or module to trace.
        target: ``backend:recipe``.
        inputs: positional inputs of a module, as a tuple. Not allowed with a case, which has its
            own.
        seed: run seed of a case.
        recipe: replaces the recipe that the target names.
        backend: replaces the backend that the target names.
        all_nodes: measure every node, also of a green program.
        taps: maximum number of node values that one program returns as additional outputs.
        on_progress: called with a line of text for each step.
        isolate: execute in a child process, so that a crash does not end this one.
        seconds: time limit. When it is exceeded, the result so far is returned and its note says
            so. A lowering in progress is not interrupted.
        finished_tester: the tester of a finished run of this case on this target; it is reused
            instead of running the case again.

    Raises:
        UnknownTarget: no such backend or recipe.
        ConflictingOptions: the case draws random numbers.
        UsageError: inputs are missing or superfluous, nothing on this host executes for the target,
            or the recipe declares the case unsupported.
    """
    case = to_case(case_or_module, inputs)
    runner = TrialRunner(
        case, target, seed, recipe, backend, on_progress, isolate=isolate, seconds=seconds
    )
    if not runner.can_execute:
        raise UsageError(f"{runner.target} cannot execute here: {runner.unavailable_reason}")
    if finished_tester is not None:
        whole = runner.accept_finished(finished_tester)
    else:
        runner.on_progress("running the program as it is")
        whole = runner.run_case()
    return find_divergence(runner, whole, all_nodes=all_nodes, taps=taps)


def to_case(case_or_module: Case | torch.nn.Module, inputs: Inputs | None) -> Case:
    """Return the case, or make one from a module and its inputs.

    Raises:
        UsageError: a module without inputs, or a case with inputs.
    """
    if isinstance(case_or_module, Case):
        if inputs is not None:
            raise UsageError(f"case {case_or_module.name!r} has its own inputs; give it alone")
        return case_or_module
    if inputs is None:
        raise UsageError("a module is traced with inputs: pass them as a tuple")
    return Case.from_module(type(case_or_module).__name__, case_or_module, inputs)


def find_divergence(
    runner: TrialRunner, whole: TrialResult, *, all_nodes: bool, taps: int = MAX_TAPS
) -> Found:
    """Find the first diverging node of a program that was run.

    Raises:
        UsageError: the recipe declares the case unsupported.
    """
    if whole.stage == UNSUPPORTED:
        raise UsageError(f"{runner.cell} is unsupported, there is nothing to trace: {whole.error}")
    runtime = "none"
    if whole.verdict is not None and whole.tester is not None:
        runtime = whole.tester.execution.runtime
    plain = Found(
        runner.cell,
        runner.seed,
        runtime,
        whole.stage,
        whole.problem,
        programs=runner.programs_tried,
    )
    if whole.tester is None or whole.verdict is None:
        return replace(plain, note="there are no values to compare")
    if not whole.is_red and not all_nodes:
        return plain
    search = start_search(runner, whole, taps)
    first = None
    start = search.find_first(whole) if whole.is_red else None
    if start is not None:
        first = describe_first_node(search, *start)
        while (earlier := _find_earlier(search, start, first)) is not None:
            start, first = earlier, describe_first_node(search, *earlier)
    if all_nodes:
        search.measure_all()
    known = set(search.candidates)
    nodes = [
        describe_node(search.flow, node, known, each) for node, each in search.measurements.items()
    ]
    nodes.sort(key=lambda each: (each.problem is None, -each.bound_used))
    note = search.note
    if whole.is_red and start is None:
        note = "no node value is wrong: the number, tree or type of the outputs differs"
    return replace(
        plain,
        first=first,
        nodes=tuple(nodes),
        path=()
        if first is None or first.originates_here is not False
        else trace_error_path(search, *start or ()),
        note=note,
        stopped_early=search.stopped_early,
        candidates=len(search.candidates),
        rounds=search.rounds,
        programs=runner.programs_tried,
    )


def _find_earlier(
    search: DivergenceSearch, start: tuple[Node, int], first: TracedNode
) -> tuple[Node, int] | None:
    """Return a wrong node before one whose error is inherited, or before one that errs only
    together with others.
    """
    if first.originates_here is False:
        return search.find_earlier(start)
    return search.find_earlier_among(first.together, start) if len(first.together) > 1 else None


def start_search(runner: TrialRunner, whole: TrialResult, taps: int = MAX_TAPS) -> DivergenceSearch:
    """Prepare a search in the graph of a program that was lowered."""
    assert whole.tester is not None
    calls = whole.tester.built.calls
    with hold_process_lock():
        flow = ValueFlow.observe(runner.get_graph(whole.tester), calls)
    return DivergenceSearch(runner, flow, calls, taps)


def make_windows(search: DivergenceSearch, call: int) -> WindowBuilder:
    """Return a builder of programs of a few nodes, with inputs taken from one call."""
    calls = (*search.calls, search.calls[-1])  # the last call is repeated to observe state
    semantics = get_semantics(search.runner.recipe)
    return WindowBuilder(search.flow, calls, call, frozenset(search.candidates), semantics)


def describe_first_node(search: DivergenceSearch, node: Node, call: int) -> TracedNode:
    """Describe the first wrong node, including whether the error originates there."""
    known = set(search.candidates)
    row = describe_node(search.flow, node, known, search.measurements[node])
    windows = make_windows(search, call)
    tried = False
    for nodes in windows.grow(node):
        if not search.runner.has_time:
            return replace(row, originates_here=None)
        search.runner.on_progress(f"{len(nodes)} nodes alone, with exact inputs")
        outcome = search.runner.try_program(windows.build_program(nodes, node))
        tried = tried or outcome.stage is None
        if outcome.stage is None and outcome.is_red:
            together = tuple(each.name for each in nodes)
            return replace(row, originates_here=True, together=together)
    return replace(row, originates_here=False if tried else None)


def trace_error_path(search: DivergenceSearch, node: Node, call: int) -> tuple[str, ...]:
    """Return the nodes through which an inherited error passed: for each node, its predecessor with
    the largest bound used.
    """
    path: list[str] = []
    current: Node | None = node
    while current is not None and len(path) < 20:
        path.append(f"{current.name} {search.measurements[current].worst.bound_used:.3g}")
        before = [
            source
            for source in search.flow.find_ancestors(
                [current], lambda each: each in search.measurements
            )
            if source in search.measurements and source is not current
        ]
        current = max(
            before, key=lambda each: search.measurements[each].worst.bound_used, default=None
        )
    return tuple(reversed(path))
