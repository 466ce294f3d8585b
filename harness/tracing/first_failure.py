"""The first node with which a program fails as a whole one does: found by trying the program up to
one node after the other, where neither the traceback nor the runtime names it."""

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
from harness.execution.process_lock import exclusive
from harness.model.backend import Backend
from harness.model.case import Case
from harness.model.recipe import Recipe
from harness.numerics.module_runs import run_calls
from harness.pipeline import stages
from harness.pipeline.cell_run import CHANGED
from harness.pipeline.explain.failing_node import place
from harness.pipeline.explain.node_origin import arguments_of
from harness.pipeline.route import prepare
from harness.pipeline.tester import Tester
from harness.record.cell import Cell, Divergence, Status
from harness.tracing.candidates import decodes, encodes
from harness.tracing.programs import leading
from harness.tracing.search import Search
from harness.tracing.trace import search_in
from harness.tracing.trial import UNSUPPORTED, Bench, Outcome, Say, masked
from harness.tracing.value_flow import Flow, Watched

_LOOK_AGAIN = 0.05
_CLASSES = re.compile(r"^(?:\w+(?:Error|Exception): )+")
_LAST = {"quantize": "quantize", "lower": "lower", "to_executorch": "lower", "run": "run"}
"""How far a program is taken that is to fail in a stage."""


def find_failing(
    cell: Cell,
    case: Case,
    *,
    seconds: float | None = None,
    recipe: Recipe | None = None,
    backend: Backend | None = None,
    say: Say | None = None,
    failed: Tester | None = None,
) -> Divergence | str:
    """The first node of a program that fails, or ends the process, at this stage.

    Args:
        cell: the record; its stage is one of :data:`harness.tracing.LOCATED`.
        case: its case.
        seconds: what it may take; None for no limit.
        recipe: used instead of the one that the target names.
        backend: used instead of the one that the target names.
        say: hears what is being done.
        failed: the cell's tester as far as it came, so that it is not run again.

    Returns:
        The node, or why none is found.

    Raises:
        ConflictingOptions: the case draws random numbers.
        UsageError: nothing here lowers for the target.
    """
    stage = cell.stage or ""
    bench = Bench(
        case, cell.target, cell.seed, recipe, backend, say,
        isolate=backend is None, seconds=seconds,
    )  # fmt: skip
    ends_process = cell.status is Status.CRASHED and stage != "run"
    if ends_process:
        whole = Outcome(_as_far_as(bench, stage), stage, cell.error)
    elif failed is not None and cell.status is not Status.CRASHED:
        bench.account(failed)
        whole = Outcome(failed, stage, cell.error)
    else:
        bench.say("running the program as it is")
        whole = bench.attempt_case(case, bench.recipe, _LAST[stage])
    if whole.stage in (None, UNSUPPORTED) or whole.tester is None:
        return "run once more to find the node that fails, it did not fail"
    if stage == "quantize":
        graph = _float_graph(whole.tester)
        if graph is None:
            return "it fails before there is a graph"
        with exclusive():
            calls = whole.tester.built.calls
            search = Search(bench, Flow.of(graph, calls), calls)
        trial = replace(bench.plain, quantizer=bench.recipe.quantizer)
    else:
        search, trial = search_in(bench, whole), bench.plain
    return _First(search, whole, trial, stage, ends_process).find()


def _as_far_as(bench: Bench, stage: str) -> Tester:
    """The case up to the stage before one that ends the process."""
    tester = Tester(
        bench.case, bench.target, seed=bench.seed, recipe=bench.recipe, backend=bench.backend
    )
    if stage != "quantize":
        prepare(tester)
    else:
        if bench.recipe.quantize_weights is not None:
            tester.quantize_weights()
        tester.export()
    bench.account(tester)
    return tester


def _float_graph(tester: Tester) -> torch.fx.GraphModule | None:
    """The graph that a quantizer gets."""
    try:
        return stages.flatten(tester.float_program)
    except StageOrderError:
        return None


class _First:
    """One search for the first node that fails."""

    def __init__(
        self, search: Search, whole: Outcome, recipe: Recipe, stage: str, ends_process: bool
    ) -> None:
        self._search = search
        self._bench = search.bench
        self._recipe = recipe
        self._stage = stage
        self._reason = _reason(whole)
        self._is_first = True
        self._ends_process = ends_process

    def find(self) -> Divergence | str:
        """Halve the nodes at which the program may begin to fail."""
        ends = self._ends()
        # The whole program up to a node fails from some node on; where its further outputs keep it
        # from failing alike, what one value is made of is tried alone.
        found = self._halve(ends, whole=True)
        if found is None:
            found = self._halve(ends, whole=False)
        if found is None:
            if not self._bench.has_time:
                return self._spent
            return f"no part of it fails alone; programs tried: {self._bench.programs}"
        note = f"the program up to this node fails alike; programs tried: {self._bench.programs}"
        if not self._is_first:
            note = f"{self._spent}; a node before it may fail as well"
        return self._place(found, note)

    def _halve(self, ends: Sequence[Node], *, whole: bool) -> Node | None:
        """The first node up to which the program fails; the last one that was seen to, where the
        time is over.

        Args:
            ends: nodes whose values can be returned.
            whole: return the values of all nodes before it, too, so that none is left out.
        """
        low, high = 0, len(ends) - 1
        found: Node | None = None
        self._is_first = True
        while low <= high:
            if not self._bench.has_time:
                self._is_first = False
                break
            middle = (low + high) // 2
            self._bench.say(f"the program up to {ends[middle]}")
            returned = self._returned(ends[: middle + 1]) if whole else [ends[middle]]
            if self._fails(returned):
                found, high = ends[middle], middle - 1
            else:
                low = middle + 1
        return found

    def _returned(self, ends: Sequence[Node]) -> list[Node]:
        """The values that no other of them is made of."""
        returned: list[Node] = []
        covered: set[Node] = set()
        for node in reversed(ends):
            if node not in covered:
                returned.append(node)
                covered.update(self._search.flow.behind([node], lambda source: False))
        return returned

    @property
    def _spent(self) -> str:
        return f"given up after {self._bench.spent:.0f} s, programs tried: {self._bench.programs}"

    def _place(self, node: Node, note: str) -> Divergence:
        while (encodes(node) or decodes(node)) and node.all_input_nodes:
            node = node.all_input_nodes[0]  # codes stand for the value that they are of
        return place(node, self._stage, arguments=self._arguments(node), note=note)

    def _arguments(self, node: Node) -> list[str]:
        """What the node is called with in eager: a quantized graph does not say."""
        found: list[str] = []

        def before(call: int, each: Node, values: Mapping[Node, Any]) -> None:
            if each is node and not found:
                found.extend(arguments_of(node, {one.name: two for one, two in values.items()}))

        with exclusive():
            run_calls(Watched(self._search.flow.module, before), self._search.calls[:1])
        return found

    def _ends(self) -> Sequence[Node]:
        if self._stage != "quantize":
            return self._search.known
        # Before anything is quantized, what is inside of a kernel can be returned, too.
        flow = self._search.flow
        return [
            node
            for node in flow.nodes
            if node.op == "call_function"
            and (seen := flow.seen.get(node)) is not None
            and seen.elements
            and seen.dtype is not None
        ]

    def _fails(self, ends: Sequence[Node]) -> bool:
        shapes = self._bench.case.dynamic_shapes
        program = leading(self._search.flow, ends, self._search.calls, shapes)
        last = _LAST[self._stage]
        if self._ends_process:
            return self._dies(lambda: self._bench.attempt(program, last=last, recipe=self._recipe))
        outcome = self._bench.attempt(program, last=last, recipe=self._recipe)
        return outcome.stage is not None and _reason(outcome) == self._reason

    def _dies(self, attempt: Callable[[], object]) -> bool:
        """Whether an attempt ends a fork of this process."""
        self._bench.programs += 1  # the fork counts its own
        child = os.fork()
        if not child:
            torch.set_num_threads(1)  # threads of this process are not there
            try:
                attempt()
            finally:
                os._exit(0)
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.WIFSIGNALED(status)
            if not self._bench.has_time:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return False
            time.sleep(_LOOK_AGAIN)


def _reason(outcome: Outcome) -> tuple[str, str]:
    """The stage and its error without what differs between programs: how values differ, and names
    of temporary files."""
    text = outcome.error or ""
    if CHANGED in text:
        return outcome.stage or "", CHANGED
    text = _CLASSES.sub("", text)  # in a process of its own, an error is one of ours
    words = [word for word in text.split() if "/tmp" not in word]
    return outcome.stage or "", masked(" ".join(words))
