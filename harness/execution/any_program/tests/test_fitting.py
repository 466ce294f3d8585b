"""Inputs are put into a program's order; inputs that do not fit are reported."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness.errors import InputError
from harness.execution.any_program import bind_inputs, io_trees
from harness.execution.any_program.run import load_method
from harness.execution.any_program.tests.programs import emitted, mixed, nested

pytestmark = pytest.mark.filterwarnings("ignore")  # vendors' own

X, M = torch.randn(3, 8), torch.ones(8)


def test_names_are_those_of_the_exported_program() -> None:
    plan = load_method(nested()).plan
    assert bind_inputs.list_input_names(plan) == ["", "", "mask['m']"]
    assert bind_inputs.list_output_names(plan) == ["['sum']", "['more'][0]", "['more'][1]"]
    plan.container_meta_type.encoded_inp_str = "T2#1#0($,$)"
    plan.container_meta_type.encoded_out_str = ""
    assert bind_inputs.list_input_names(plan) == bind_inputs.list_output_names(plan) == ["", "", ""]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((X, True), {"mask": {"m": M}}),
        ((X, True, M), {}),
    ],
)
def test_nested_or_flat_inputs_come_in_the_order_of_the_program(args: Any, kwargs: Any) -> None:
    first, flag, mask = bind_inputs.flatten_inputs(load_method(nested()), args, kwargs)
    assert first is X
    assert flag is True
    assert mask is M


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ((X,), {"mask": {"m": M}}, "1 input is given in order, the program takes 2"),
        ((X, True), {}, "no input is named 'mask'"),
        ((X, True), {"mask": {"m": M}, "y": M}, r"named 'y'; the program takes \['mask'\] by name"),
        ((X, True), {"mask": M}, "input mask is a Tensor; the program takes a dict"),
        ((X, True), {"mask": {"n": M}}, r"the keys \['n'\]; the program takes the keys \['m'\]"),
        ((X, False, M), {}, "input 1 is the bool False; the program takes the bool True alone"),
        ((X, 1, M), {}, "input 1 is the int 1"),
        ((3, True, M), {}, r"input 0 is the int 3; the program takes float32 \(3, 8\)"),
        ((X, True, None), {}, r"input 2 \(mask\['m'\]\) is None"),
        ((X.double(), True, M), {}, r"float64 \(3, 8\); the program takes float32 \(3, 8\)"),
        ((X[:2], True, M), {}, r"float32 \(2, 8\); the program takes float32 \(3, 8\)"),
        ((X.to_sparse(), True, M), {}, "sparse_coo float32"),
        ((X, True, M, M), {}, "4 inputs are given in order, the program takes 2"),
    ],
)
def test_inputs_that_do_not_fit_are_reported(args: Any, kwargs: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        bind_inputs.flatten_inputs(load_method(nested()), args, kwargs)
    assert "\n" not in str(caught.value)


def test_a_dynamic_shape_is_bounded() -> None:
    program = load_method(mixed()[0])
    for rows in (2, 6):
        bind_inputs.flatten_inputs(program, (torch.randn(rows, 8),))
    with pytest.raises(InputError, match=r"\(7, 8\); the program takes float32 at most \(6, 8\)"):
        bind_inputs.flatten_inputs(program, (torch.randn(7, 8),))


def test_names_of_inputs_need_a_program_that_tells_them() -> None:
    program = load_method(emitted("portable:fp32"))
    program.plan.container_meta_type.encoded_inp_str = ""
    with pytest.raises(InputError, match="does not say how its inputs are named"):
        bind_inputs.flatten_inputs(program, (), {"x": X})
    assert bind_inputs.flatten_inputs(program, ([X],)) == (X,)


def test_random_inputs_fit_and_depend_on_the_seed() -> None:
    program = load_method(nested())
    drawn = [bind_inputs.generate_inputs(program, seed) for seed in (0, 0, 1)]
    for inputs in drawn:
        bind_inputs.check_inputs(program, inputs)
    assert torch.equal(drawn[0][0], drawn[1][0])
    assert not torch.equal(drawn[0][0], drawn[2][0])


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "T2#1#0($,$)",
        "[2, {}]",
        '[1, {"type": "builtins.dict", "context": "[1, 2]", "children_spec": []}]',
        '[1, {"type": "builtins.dict", "context": "null", "children_spec": []}]',
        '[1, {"type": 3, "children_spec": []}]',
        "[" * 100_000,
    ],
)
def test_a_tree_that_is_none_is_none(text: str | None) -> None:
    assert io_trees.parse_tree(text) is None
