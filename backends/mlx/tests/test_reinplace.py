"""A cell detects an operation that overwrites an operand which is read again.

The fault is planted in two ways: the decoded program puts a result into the slot of an operand, or
the checks against it are removed from upstream's pass and handlers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from torch.utils._pytree import tree_leaves

from backends.mlx.execution.delegate import load
from backends.mlx.payload import reader
from backends.mlx.payload.graph import DELEGATE, MlxGraph, Node, Tid
from harness import Case, ProgramError, Tester, run_cell
from harness.backend_api import Interpreter, Program, RuntimeKernels
from harness.numerics.compare import compare
from suites.mlx import reinplace

CASES = {case.name: case for case in reinplace.CASES}

READ_AGAIN = [
    *("both_operands", "both_operands_broadcast", "diamond", "fan", "ladder", "residuals"),
    *("diamond_dynamic", "ladder_dynamic", "residuals_dynamic", "with_itself", "with_row"),
    *("with_view", "with_transposed", "of_view", "parts", "joined"),
]
"""Cases in which an operand of the result's shape is read again."""


def lowered(case: Case) -> Tester:
    return Tester(case, "mlx:fp32").export().lower().to_executorch().serialize()


def renamed(node: Node, old: int, new: Tid) -> Node:
    """The instruction with another slot for each occurrence of one."""

    def other(value: object) -> object:
        if isinstance(value, list):
            return [other(item) for item in value]
        return new if type(value) is Tid and value == old else value

    return Node(kind=node.kind, **{name: other(value) for name, value in node.fields.items()})


def overwritten(graph: MlxGraph) -> Iterator[MlxGraph]:
    """The program, each time with one result in the slot of an operand that is read again."""
    chain = graph.chains[graph.main]
    for place, node in enumerate(chain):
        for operand in dict.fromkeys(node.reads):
            slots = [operand, *node.writes]
            if len(slots) != 2 or {graph.role(slot) for slot in slots} != {"temporary"}:
                continue
            if operand == slots[1] or not _is_read(operand, chain[place + 1 :]):
                continue
            edited = [*chain[:place], Node(kind=node.kind, **{**node.fields, "out": operand})]
            for after in chain[place + 1 :]:
                if slots[1] in after.writes:
                    break
                edited.append(renamed(after, slots[1], operand))
            edited += chain[len(edited) :]
            chains = list(graph.chains)
            chains[graph.main] = tuple(edited)
            yield dataclasses.replace(graph, chains=tuple(chains))


def _is_read(slot: Tid, chain: Iterable[Node]) -> bool:
    """Whether a chain reads a slot before it writes it."""
    for node in chain:
        if slot in node.reads:
            return True
        if slot in node.writes:
            return False
    return False


def passes(tester: Tester, monkeypatch: pytest.MonkeyPatch, graph: MlxGraph) -> bool:
    """Whether a cell's program conforms when it is executed as another graph."""
    program = Program(tester.program)
    with monkeypatch.context() as patch:
        patch.setattr(reader, "load", lambda data: graph)
        interpreter = Interpreter(program, {DELEGATE: load}, RuntimeKernels())
    try:
        outputs = [interpreter(program.arrange(tree_leaves(call))) for call in tester.built.calls]
    except ProgramError:  # its shape differs from the overwritten tensor's
        return False
    return compare(outputs, tester.reference, declared=program.outputs).passed


@pytest.mark.parametrize("name", READ_AGAIN)
@pytest.mark.one_of(3)
def test_an_overwritten_operand_makes_the_cell_red(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tester = lowered(CASES[f"reinplace/{name}"])
    assert tester.run().compare().verdict.passed
    (part,) = Program(tester.program).delegates
    honest = reader.load(part.data)
    faults = list(overwritten(honest))
    assert faults
    assert passes(tester, monkeypatch, honest)
    green = [number for number, fault in enumerate(faults) if passes(tester, monkeypatch, fault)]
    assert not green, f"{len(green)} of {len(faults)} planted overwrites go unnoticed"


def careless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Upstream's pass without its look at later uses, and its handlers without theirs."""
    from executorch.backends.mlx import ops
    from executorch.exir.passes import reinplace as upstream

    def is_safe(node: Any, consumer: Any, later: Any, inputs: Any, mutable: Any) -> bool:
        fits: bool = upstream._is_inplace_shape_dtype_compatible(node, consumer)
        return fits and node not in inputs

    def alias(builder: Any, node: Any, operand: Any) -> Any:
        is_output = builder.slot_manager.get_slot(node) is not None
        return None if is_output or operand.id_space != ops.IdSpace.Temp else operand

    monkeypatch.setattr(upstream, "_is_safe_to_reinplace", is_safe)
    monkeypatch.setattr(ops, "_inplace_alias_slot", alias)


@pytest.mark.parametrize("name", ["diamond", "ladder", "residuals_dynamic", "parts", "joined"])
def test_a_careless_pass_makes_the_cell_red(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[f"reinplace/{name}"]
    assert run_cell(case, "mlx:fp32").status.value == "passed"
    careless(monkeypatch)
    cell = run_cell(case, "mlx:fp32")
    assert (cell.status.value, cell.stage) == ("mismatch", "compare")


@pytest.mark.parametrize(
    "name", ["unary_chain", "binary_chain", "activations", "clamp_and_power", "integers"]
)
def test_the_chains_are_really_done_in_place(name: str) -> None:
    (part,) = Program(lowered(CASES[f"reinplace/{name}"]).program).delegates
    chain = reader.load(part.data).chains[0]
    assert sum(bool(set(node.writes) & set(node.reads)) for node in chain) >= 3
