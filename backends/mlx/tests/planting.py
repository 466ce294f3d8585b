"""Plant every fault of :mod:`mutations` in the interpreter and see which cells go red.

    python -m backends.mlx.tests.planting

tries every case of the suites, prints how many faults were caught, and writes the smallest
choice of cases that catch them to ``catchers.py``, which the test uses.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.utils._pytree import tree_leaves

from backends.mlx.execution import delegate
from backends.mlx.execution.executor import MlxExecutor
from backends.mlx.execution.kernels import Builder
from backends.mlx.payload import reader
from backends.mlx.payload.graph import DELEGATE, MlxGraph, Node
from backends.mlx.payload.tests.mutations import Fault, faults_of
from harness import Case, StageFailure, Target, Tester, registry
from harness.backend_api import (
    DelegateHandle,
    DelegatePayload,
    Interpreter,
    Program,
    RuntimeKernels,
)
from harness.numerics.compare import compare
from harness.pipeline.route import lower
from harness.session.discovery import load_suites

ROOT = Path(__file__).parents[3]


@dataclass
class Outcome:
    """Results of the planted faults.

    Attributes:
        caught: names of the cases that caught a fault, by node type and fault.
        kinds: node types that occurred in a passing program.
    """

    caught: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)

    @property
    def missed(self) -> list[tuple[str, str]]:
        """Faults that no case caught."""
        return [key for key, cases in self.caught.items() if not cases]

    @property
    def share(self) -> float:
        """Share of the faults that was caught."""
        return 1 - len(self.missed) / max(1, len(self.caught))

    def __str__(self) -> str:
        head = (
            f"{len(self.caught) - len(self.missed)} of {len(self.caught)} planted faults in "
            f"{len(self.kinds)} node types were caught ({self.share:.1%})"
        )
        return "\n".join([head, *(f"  missed: {kind}, {name}" for kind, name in self.missed)])


def plant_all(
    cells: Iterable[tuple[Case, Target]], enough: int = 1, kinds: frozenset[str] | None = None
) -> Outcome:
    """Plant each fault that fits a cell's program, until ``enough`` cells have caught it.

    Args:
        cells: cases and where they run; cells that fail without a fault are skipped.
        enough: how many cells have to catch a fault before no further one is tried.
        kinds: node types to plant faults in; all by default.
    """
    outcome = Outcome()
    for case, target in cells:
        prepared = _Prepared.of(case, target)
        if prepared is None:
            continue
        nodes = [node for node in prepared.nodes if kinds is None or node.kind in kinds]
        outcome.kinds |= {node.kind for node in nodes}
        faults = {(f.kind, f.name): f for node in nodes for f in faults_of(node)}
        for key, fault in faults.items():
            catchers = outcome.caught.setdefault(key, [])
            if len(catchers) < enough and not prepared.passes_with(fault):
                catchers.append(case.name)
    return outcome


@dataclass
class _Prepared:
    """A passing cell whose program is loaded again with each fault."""

    tester: Tester
    program: Program
    graphs: list[MlxGraph]

    @classmethod
    def of(cls, case: Case, target: Target) -> _Prepared | None:
        try:
            tester = Tester(case, target)
            if tester.recipe.unsupported(case, tester.built):
                return None
            lower(tester)
            if not tester.run().compare().verdict.passed:
                return None
        except StageFailure:
            return None
        program = Program(tester.program)
        return cls(tester, program, [reader.load(d.data) for d in program.delegates])

    @property
    def nodes(self) -> Iterator[Node]:
        for graph in self.graphs:
            for chain in graph.chains:
                yield from chain

    def passes_with(self, fault: Fault) -> bool:
        load = _loader(self.program, {fault.kind: fault.plant})
        try:
            interpreter = Interpreter(self.program, {DELEGATE: load}, RuntimeKernels())
            outputs = [
                interpreter(self.program.arrange(tree_leaves(inputs)))
                for inputs in self.tester.built.calls
            ]
        except Exception:
            return False  # an error is seen, too
        declared = self.program.outputs
        return compare(outputs, self.tester.reference, declared=declared).passed


def _loader(
    program: Program, wrap: dict[str, Callable[[Builder], Builder]]
) -> Callable[[DelegatePayload], DelegateHandle]:
    cache = delegate.make_cache(program)

    def load(given: DelegatePayload) -> DelegateHandle:
        made: MlxExecutor = delegate.make_executor(given, cache, wrap=wrap)
        return delegate.make_handle(made)

    return load


def cells_of(cases: Iterable[Case], recipes: tuple[str, ...]) -> Iterator[tuple[Case, Target]]:
    """Each case on its first target among the MLX recipes, and with quantized weights."""
    targets = [Target("mlx", recipe) for recipe in recipes]
    for case in cases:
        if "nightly" in case.tags or "model" in case.tags:
            continue
        found = registry.select_targets(case, targets)
        for target in dict.fromkeys([*found[:1], *(t for t in found if t.recipe == "int4")]):
            yield case, target


RECIPES = ("fp32", "bf16", "int4", "mxfp8", "nvfp4")


def cases_in(folders: Iterable[Path]) -> list[Case]:
    """All cases of some suite folders."""
    return [case for folder in folders for suite in load_suites(folder) for case in suite.cases]


def cover(outcome: Outcome) -> dict[str, list[str]]:
    """Select a few cases that catch the faults of each node type."""
    chosen: dict[str, list[str]] = {}
    for kind in sorted(outcome.kinds):
        open_faults = [set(cases) for key, cases in outcome.caught.items() if key[0] == kind]
        open_faults = [cases for cases in open_faults if cases]
        names: list[str] = []
        while open_faults:
            counts = Counter(name for cases in open_faults for name in cases)
            best = min(counts, key=lambda name: (-counts[name], name))
            names.append(best)
            open_faults = [cases for cases in open_faults if best not in cases]
        chosen[kind] = names
    return chosen


def main() -> None:
    """Try all cases, print the caught faults, write the table."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    outcome = plant_all(cells_of(cases_in([ROOT / "suites"]), RECIPES), enough=4)
    print(outcome)
    rows = "".join(
        f'    "{kind}": "{" ".join(names)}",\n' for kind, names in cover(outcome).items()
    )
    (Path(__file__).parent / "catchers.py").write_text(
        f'"""Which cases catch the faults planted in a node type; written by planting.py."""\n\n'
        f"CATCHERS = {{\n{rows}}}\n"
    )


if __name__ == "__main__":
    main()
