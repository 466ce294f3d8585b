"""A known issue matches a cell with all of its signs, and no other cell."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.errors import LimitationError
from harness.model.known_issues.known_issue import KnownIssue, find_known_issues
from harness.model.known_issues.operator_names import base_name, find_operator_names
from harness.record.cell import Cell, Delegation, Status
from harness.record.program_data import Defect, Divergence

ISSUE: dict[str, Any] = {
    "cause": "The kernel reads memory row by row.",
    "target": "x:*",
    "stage": "lower",
    "op": "convolution",
    "error": "strides",
    "arguments": "channels-last",
    "link": "https://example.org/1",
    "workaround": "`.contiguous()` before it.",
}


def failed(**changes: Any) -> Cell:
    node = Divergence(
        node="conv",
        op="aten.conv2d.default",
        arguments=("float32[1, 3, 8, 8] channels-last", "float32[4, 3, 3, 3]"),
        fails=True,
    )
    fields = {
        "case": "c",
        "target": "x:fp32",
        "status": Status.FAILED,
        "stage": "lower",
        "error": "input strides differ",
        "first_divergence": node,
        "delegation": Delegation(undelegated_ops={"aten.convolution.default": 2}),
        "vendor_frame": "vendor/kernel.py:3: raise ValueError",
        **changes,
    }
    return Cell(**fields)


def node_of(op: str, *arguments: str) -> Divergence:
    return Divergence(node="n", op=op, arguments=arguments, fails=True)


@pytest.mark.parametrize(
    ("signs", "cell"),
    [
        ({}, {}),
        ({"op": "*", "error": "input strides differ"}, {}),
        ({"frame": "kernel.py"}, {}),
        ({"program": "conv*", "calls": 2}, {}),
        ({"delegated": False}, {}),
        ({"target": "y:*|x:fp32"}, {"target": "x:fp32+lift"}),
        ({"arguments": ""}, {"first_divergence": None, "defects": [
            Defect(error="weight strides differ", op="aten.convolution.default")]}),
    ],
)  # fmt: skip
def test_a_cell_that_has_all_signs_shows_the_issue(
    signs: dict[str, Any], cell: dict[str, Any]
) -> None:
    issue = KnownIssue(**{**ISSUE, **signs})
    assert find_known_issues(failed(**cell), [issue]) == [issue.ref]


@pytest.mark.parametrize(
    ("signs", "cell"),
    [
        ({}, {"target": "y:fp32"}),
        ({}, {"stage": "run"}),
        ({}, {"status": Status.MISMATCH}),
        ({}, {"error": "no kernel"}),
        ({}, {"first_divergence": node_of("aten.linear.default", "float32[2] channels-last")}),
        ({}, {"first_divergence": node_of("aten.conv2d.default", "float32[1, 3, 8, 8]")}),
        # A record without a node has no operator to match.
        ({}, {"first_divergence": None}),
        ({"frame": "other.py"}, {}),
        ({"program": "conv*", "calls": 3}, {}),
        ({"delegated": True}, {}),
        ({"host": "nowhere/*"}, {}),
        ({"until": "0.1.0"}, {}),
    ],
)
def test_a_cell_that_lacks_one_sign_does_not(signs: dict[str, Any], cell: dict[str, Any]) -> None:
    assert find_known_issues(failed(**cell), [KnownIssue(**{**ISSUE, **signs})]) == []


def test_a_hint_names_cause_link_and_workaround_and_changes_no_status() -> None:
    cell = failed()
    cell.known_issues = find_known_issues(cell, [KnownIssue(**ISSUE)])
    assert str(cell.known_issues[0]) == (
        "The kernel reads memory row by row (https://example.org/1); workaround: `.contiguous()` "
        "before it"
    )
    assert cell.status is Status.FAILED
    assert Cell.from_json(cell.to_json()) == cell


def test_a_green_cell_shows_nothing_and_one_cause_is_named_once() -> None:
    issues = [KnownIssue(**ISSUE), KnownIssue(**{**ISSUE, "cause": "the same, in other words"})]
    assert find_known_issues(failed(status=Status.PASSED), issues) == []
    assert len(find_known_issues(failed(), issues)) == 1


def test_an_issue_that_any_failure_would_show_is_refused() -> None:
    with pytest.raises(LimitationError, match="names neither an operator nor an error"):
        KnownIssue(cause="all is wrong", stage="run", error="Error")


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("aten.add_.Tensor", "add"),
        ("aten._softmax.default", "softmax"),
        ("aten.slice_copy.Tensor", "slice"),
        ("aten.constant_pad_nd.default", "pad"),
        ("aten.conv2d.default", "convolution"),
        ("aten.max_pool2d_with_indices.default", "max_pool2d"),
        ("aten.native_layer_norm.out", "layer_norm"),
        ("dim_order_ops._to_dim_order_copy.default", "to"),
        ("prelu", "prelu"),
    ],
)
def test_an_operator_has_one_name_in_all_its_forms(name: str, base: str) -> None:
    assert base_name(name) == base


def test_operators_are_found_in_the_record_of_a_node() -> None:
    assert find_operator_names("tosa.ABS.default of aten.abs.default") == ["ABS", "abs"]
    assert find_operator_names("aten.view.default + aten.mul.Tensor") == ["view", "mul"]
    assert find_operator_names("input 0, read by aten.tanh.default") == ["tanh"]
    assert find_operator_names("XnnpackBackend, 12 nodes from aten_add to aten_mul") == []
    assert find_operator_names("cond") == ["cond"]


def test_a_node_that_may_not_be_the_first_gives_no_hint() -> None:
    signs = {**ISSUE, "stage": "compare", "outcome": Status.MISMATCH, "error": ""}
    node = Divergence(node="n", op="aten.conv2d.default", arguments=("channels-last",))
    certain = failed(status=Status.MISMATCH, stage="compare", first_divergence=node)
    assert find_known_issues(certain, [KnownIssue(**signs)])
    early = msgspec.structs.replace(node, note="stopped: a node before it may be wrong")
    uncertain = failed(status=Status.MISMATCH, stage="compare", first_divergence=early)
    assert not find_known_issues(uncertain, [KnownIssue(**signs)])
