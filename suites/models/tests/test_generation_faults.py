"""Compiler faults in a decoder's state are detected on every target that decodes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from harness import Status, run_cell, trace
from harness.tracing.tests.planting import Edit, edge_operator, make_faulty_recipe
from suites.models.decoding import Shipped
from suites.models.generation import generation_case, plain_step
from suites.models.language import llama

NIGHTLY = pytest.mark.nightly
TARGETS = ["portable:fp32", "xnnpack:fp32", "tosa:fp", "mlx:fp32", "metal:fp32"]
WRITES = {"aten.index_put.default", "aten.index_copy.default"}
BASE = 10_000.0  # of Llama's rotary positions

SHORT = generation_case("llama/short", lambda: Shipped(llama()), plain_step, steps=2)


def put_before(node: torch.fx.Node, given: torch.fx.Node, operator: str, number: float) -> bool:
    """Insert an operator with a number between a node and one of its arguments."""
    with node.graph.inserting_before(node):
        wrong = node.graph.call_function(edge_operator(operator), (given, number))
    wrong.meta = dict(given.meta)
    node.replace_input_with(given, wrong)
    return True


def name_of(node: torch.fx.Node) -> str:
    """Name of the node's operator, such as ``aten.add.Tensor``, in any dialect."""
    return str(getattr(node.target, "_op", node.target))


def writes_one_on(node: torch.fx.Node) -> bool:
    """Write keys and values one position too late."""
    if name_of(node) not in WRITES:
        return False
    index = node.args[2] if "copy" in name_of(node) else node.args[1][2]  # type: ignore[index]
    assert isinstance(index, torch.fx.Node)
    return put_before(node, index, "aten.add.Scalar", 1)


def sees_one_more(node: torch.fx.Node) -> bool:
    """Make the mask let a token see the next one."""
    if name_of(node) != "aten.le.Tensor":
        return False
    query = node.args[1]
    assert isinstance(query, torch.fx.Node)
    return put_before(node, query, "aten.add.Scalar", 1)


def turns_slower(node: torch.fx.Node) -> bool:
    """Make the base of rotary positions 1 % larger: each frequency is a power of it."""
    for given in node.all_input_nodes:
        if given.op == "placeholder" and given.name.endswith("rotary_emb_inv_freq"):
            exponent = math.log(1.01 * BASE) / math.log(BASE)
            return put_before(node, given, "aten.pow.Tensor_Scalar", exponent)
    return False


FAULTS: list[Edit] = [writes_one_on, sees_one_more, turns_slower]
BY_DAY = {("mlx:fp32", sees_one_more)}


class Counted:
    """An edit that counts how often it changed a node."""

    def __init__(self, edit: Edit) -> None:
        self.edit = edit
        self.made = 0

    def __call__(self, node: torch.fx.Node) -> bool:
        changed = self.edit(node)
        self.made += changed
        return changed


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("target", "fault"),
    [
        pytest.param(target, fault, marks=() if (target, fault) in BY_DAY else NIGHTLY)
        for target in TARGETS
        for fault in FAULTS
    ],
)
def test_a_fault_in_the_state_is_red(target: str, fault: Edit) -> None:
    edit = Counted(fault)
    cell = run_cell(SHORT, target, recipe=make_faulty_recipe(target, edit))
    assert edit.made
    assert (cell.status, cell.stage) == (Status.MISMATCH, "compare"), cell.error


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("fault", "node", "line"),
    [
        (writes_one_on, "index_copy_", "past_key_values.update(key_states, value_states"),
        (sees_one_more, "le", "causal_mask = create_causal_mask("),
    ],
)
def test_a_trace_names_the_node_that_corrupts_the_state(fault: Edit, node: str, line: str) -> None:
    assert SHORT.calls is not None
    calls = SHORT.calls
    case = replace(SHORT, calls=lambda: calls()[:2])
    first = trace(case, "portable:fp32", recipe=make_faulty_recipe("portable:fp32", fault)).first
    assert first is not None
    assert (first.node, first.born) == (node, True)
    assert line in first.source
