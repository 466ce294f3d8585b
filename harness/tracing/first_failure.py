"""Finds the first node with which a program fails, by bisecting prefixes of the program.

Used where neither the traceback nor the runtime names the node.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from harness.errors import StageOrderError
from harness.execution.process_lock import hold_process_lock
from harness.model.backend import Backend
from harness.model.case import Case
from harness.model.recipe import Recipe
from harness.numerics.module_runs import run_calls
from harness.pipeline import stages
from harness.pipeline.explain.failing_node import describe_node
from harness.pipeline.explain.node_origin import format_arguments
from harness.pipeline.reference.intermediate import CHANGED
from harness.pipeline.route import prepare
from harness.pipeline.tester import Tester
from harness.record.cell import Cell, Status
from harness.record.program_data import Divergence
from harness.tracing.candidates import is_dequantize, is_quantize
from harness.tracing.programs import build_multi_prefix
from harness.tracing.search import DivergenceSearch
from harness.tracing.trace import start_search
from harness.tracing.trial import (
    UNSUPPORTED,
    ProgressCallback,
    TrialResult,
    TrialRunner,
    mask_numbers,
)
from harness.tracing.value_flow import ObservedGraph, ValueFlow

_POLL_SECONDS = 0.05
_ERROR_CLASSES = re.compile(r"^(?:\w+(?:Error|Exception): )+")
_LAST_STAGE = {"quantize": "quantize", "lower": "lower", "to_executorch": "lower", "run": "run"}
"""The last stage to run to see a failure in a stage."""


def find_failing_node(
    cell: Cell,
    case: Case,
    *,
    seconds: float | None = None,
    recipe: Recipe | None = None,
    backend: Backend | None = None,
    on_progress: ProgressCallback | None = None,
    failed_tester: Tester | None = None,
) -> Divergence | str:
    """Find the first node with which a program fails, or ends the process, in the cell's stage.

    Args:
        cell: the record; its stage is one of :data:`harness.tracing.LOCATABLE_STAGES`.
        case: its case.
        seconds: time limit; None for no limit.
        recipe: replaces the recipe that the target names.
        backend: replaces the backend that the target names.
        on_progress: called with a line of text for each step.
        failed_tester: the cell's tester as far as it came; reused instead of running the cell
            again.

    Returns:
        The node, or the reason why none was found.

    Raises:
        ConflictingOptions: the case draws random numbers.
        UsageError: nothing on this host lowers for the target.
    """
    stage = cell.stage or ""
    runner = TrialRunner(
        case, cell.target, cell.seed, recipe, backend, on_progress,
        isolate=backend is None, seconds=seconds,
    )  # fmt: skip
    ends_process = cell.status is Status.CRASHED and stage != "run"
    if ends_process:
        whole = TrialResult(_run_up_to(runner, stage), stage, cell.error)
    elif failed_tester is not None and cell.status is not Status.CRASHED:
        runner.note_duration(failed_tester)
        whole = TrialResult(failed_tester, stage, cell.error)
    else:
        runner.on_progress("running the program as it is")
        whole = runner.try_case(case, runner.recipe, _LAST_STAGE[stage])
    if whole.stage in (None, UNSUPPORTED) or whole.tester is None:
        return "the cell did not fail when it was run again to find the failing node"
    if stage == "quantize":
        graph = _float_graph(whole.tester)
        if graph is None:
            return "it fails before there is a graph"
        with hold_process_lock():
            calls = whole.tester.built.calls
            search = DivergenceSearch(runner, ValueFlow.observe(graph, calls), calls)
        trial = replace(runner.program_recipe, quantizer=runner.recipe.quantizer)
    else:
        search, trial = start_search(runner, whole), runner.program_recipe
    return _FailureSearch(search, whole, trial, stage, ends_process).find()


def _run_up_to(runner: TrialRunner, stage: str) -> Tester:
    """Run the case up to the stage before one that ends the process."""
    tester = Tester(
        runner.case, runner.target, seed=runner.seed, recipe=runner.recipe, backend=runner.backend
    )
    if stage != "quantize":
        prepare(tester)
    else:
        if runner.recipe.quantize_weights is not None:
            tester.quantize_weights()
        tester.export()
    runner.note_duration(tester)
    return tester


def _float_graph(tester: Tester) -> torch.fx.GraphModule | None:
    """Return the graph that the quantizer gets."""
    try:
        return stages.flatten(tester.float_program)
    except StageOrderError:
        return None


class _FailureSearch:
    """One search for the first node that fails."""

    def __init__(
        self,
        search: DivergenceSearch,
        whole: TrialResult,
        recipe: Recipe,
        stage: str,
        ends_process: bool,
    ) -> None:
        self._search = search
        self._runner = search.runner
        self._recipe = recipe
        self._stage = stage
        self._signature = _get_signature(whole)
        self._is_first = True
        self._ends_process = ends_process

    def find(self) -> Divergence | str:
        """Bisect the nodes at which the program begins to fail."""
        ends = self._list_ends()
        # From some node on, the program up to that node fails. Where its additional outputs prevent
        # the same failure, the program for that one value is tried.
        found = self._bisect(ends, whole=True)
        if found is None:
            found = self._bisect(ends, whole=False)
        if found is None:
            if not self._runner.has_time:
                return self._time_note
            return f"no part of it fails alone; programs tried: {self._runner.programs_tried}"
        tried = self._runner.programs_tried
        note = f"the program up to this node fails alike; programs tried: {tried}"
        if not self._is_first:
            note = f"{self._time_note}; a node before it may fail as well"
        return self._describe_node(found, note)

    def _bisect(self, ends: Sequence[Node], *, whole: bool) -> Node | None:
        """Return the first node up to which the program fails; the earliest known one when time is
        up.

        Args:
            ends: nodes whose values can be returned.
            whole: return the values of all nodes before it as well, so that none is omitted.
        """
        low, high = 0, len(ends) - 1
        found: Node | None = None
        self._is_first = True
        while low <= high:
            if not self._runner.has_time:
                self._is_first = False
                break
            middle = (low + high) // 2
            self._runner.on_progress(f"the program up to {ends[middle]}")
            returned = self._find_returned(ends[: middle + 1]) if whole else [ends[middle]]
            if self._fails(returned):
                found, high = ends[middle], middle - 1
            else:
                low = middle + 1
        return found

    def _find_returned(self, ends: Sequence[Node]) -> list[Node]:
        """Return the values that no other of them depends on."""
        returned: list[Node] = []
        covered: set[Node] = set()
        for node in reversed(ends):
            if node not in covered:
                returned.append(node)
                covered.update(self._search.flow.find_ancestors([node], lambda source: False))
        return returned

    @property
    def _time_note(self) -> str:
        seconds, tried = self._runner.elapsed_seconds, self._runner.programs_tried
        return f"given up after {seconds:.0f} s, programs tried: {tried}"

    def _describe_node(self, node: Node, note: str) -> Divergence:
        while (is_quantize(node) or is_dequantize(node)) and node.all_input_nodes:
            node = node.all_input_nodes[0]  # name the node whose value is quantized
        return describe_node(node, self._stage, arguments=self._arguments(node), note=note)

    def _arguments(self, node: Node) -> list[str]:
        """Return the node's arguments in eager: a quantized graph does not have them."""
        found: list[str] = []

        def before(call: int, each: Node, values: Mapping[Node, Any]) -> None:
            if each is node and not found:
                found.extend(format_arguments(node, {one.name: two for one, two in values.items()}))

        with hold_process_lock():
            run_calls(ObservedGraph(self._search.flow.module, before), self._search.calls[:1])
        return found

    def _list_ends(self) -> Sequence[Node]:
        if self._stage != "quantize":
            return self._search.candidates
        # Before quantization, values inside of a kernel can be returned as well.
        flow = self._search.flow
        return [
            node
            for node in flow.nodes
            if node.op == "call_function"
            and (seen := flow.observed.get(node)) is not None
            and seen.elements
            and seen.dtype is not None
        ]

    def _fails(self, ends: Sequence[Node]) -> bool:
        shapes = self._runner.case.dynamic_shapes
        program = build_multi_prefix(self._search.flow, ends, self._search.calls, shapes)
        last = _LAST_STAGE[self._stage]
        if self._ends_process:
            return self._kills_process(
                lambda: self._runner.try_program(program, last=last, recipe=self._recipe)
            )
        outcome = self._runner.try_program(program, last=last, recipe=self._recipe)
        return outcome.stage is not None and _get_signature(outcome) == self._signature

    def _kills_process(self, attempt: Callable[[], object]) -> bool:
        """Whether an attempt ends a fork of this process."""
        self._runner.programs_tried += 1  # the fork counts separately
        child = os.fork()
        if not child:
            torch.set_num_threads(1)  # a fork has no other threads
            try:
                attempt()
            finally:
                os._exit(0)
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.WIFSIGNALED(status)
            if not self._runner.has_time:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return False
            time.sleep(_POLL_SECONDS)


def _get_signature(outcome: TrialResult) -> tuple[str, str]:
    """Return the stage and its error without the parts that differ between programs.

    These are the differences of values, and names of temporary files.
    """
    text = outcome.error or ""
    if CHANGED in text:
        return outcome.stage or "", CHANGED
    text = _ERROR_CLASSES.sub("", text)  # a child process reports an error of ours
    words = [word for word in text.split() if "/tmp" not in word]
    return outcome.stage or "", mask_numbers(" ".join(words))
