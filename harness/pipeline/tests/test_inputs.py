"""Modules accept nested inputs, inputs by name and inputs that are not tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness import Call, Case, Tester, run_cell
from harness.model.case import Built
from harness.record.cell import Status


class Various(torch.nn.Module):
    """All types that a forward may take and return."""

    def forward(
        self,
        x: torch.Tensor,
        pair: Any = (0.0, [0.0]),
        *,
        mask: torch.Tensor | None = None,
        parts: dict[str, torch.Tensor] | None = None,
        scale: float = 2.0,
        negate: bool = False,
    ) -> Any:
        y = x * scale + pair[0] - pair[1][0]
        if mask is not None:
            y = y + mask
        if parts is not None:
            y = y - parts["b"] + 2 * parts["a"]
        if negate:
            y = -y
        return {"y": y, "kept": [mask, (scale, negate)], "more": (y + 1,)}


def _case(name: str, inputs: tuple[Any, ...], kwargs: dict[str, Any], **options: Any) -> Case:
    return Case.from_module(f"various/{name}", Various(), inputs, kwargs, **options)


X, Y, Z = torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 4)
_BATCH = {0: torch.export.Dim("batch", min=1, max=8)}

CASES = [
    _case("nested", (X, (Y, [Z])), {}),
    _case("numbers", (X, (1.5, [3])), {"scale": 3.0, "negate": True}),
    _case("nothing", (X,), {"mask": None}),
    _case("names_only", (), {"x": X, "mask": Y}),
    _case(
        "names_in_another_order",
        (X,),
        {"parts": {"b": X, "a": Y}, "mask": Z},
        calls=[Call((Y,), {"mask": X, "parts": {"a": Z, "b": Y}})],
    ),
    _case(
        "dynamic",
        (X,),
        {"mask": Y},
        dynamic_shapes={"x": _BATCH, "mask": _BATCH},
        calls=[Call((torch.randn(5, 4),), {"mask": torch.randn(5, 4)})],
    ),
    Case("various/built", lambda: (Various(), (torch.randn(3, 4),), {"mask": torch.randn(3, 4)})),
]


@pytest.mark.parametrize("target", ["portable:fp32", "null:eager"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.one_of(2)
def test_inputs_reach_the_program(case: Case, target: str) -> None:
    cell = run_cell(case, target)
    assert cell.status is Status.PASSED, cell.error


def test_quantized_programs_are_calibrated_with_inputs_by_name() -> None:
    case = CASES[-1]
    assert run_cell(case, "xnnpack:int8").status is Status.PASSED


def test_inputs_by_name_are_cast() -> None:
    built: Built = CASES[-1].make().cast("bfloat16")
    assert [tensor.dtype for tensor in built.tensors] == [torch.bfloat16] * 2


def test_inputs_by_name_are_copied() -> None:
    case, kept = _case("copied", (X,), {"mask": Y}), Y.clone()
    for tensor in case.make().tensors:
        tensor.zero_()
    assert torch.equal(Y, kept)


class ChangesByName(torch.nn.Module):
    def forward(self, x: torch.Tensor, *, state: torch.Tensor) -> torch.Tensor:
        y = x + state
        state.mul_(2)
        return y


def test_an_input_by_name_that_is_changed_is_compared() -> None:
    case = Case.from_module("changes", ChangesByName(), (X,), {"state": Y})
    cell = run_cell(case, "portable:fp32")
    assert cell.status is Status.PASSED, cell.error
    assert {(numbers.role, numbers.output) for numbers in cell.numerics} == {
        ("output", 0),
        ("input", 1),
    }


def test_a_further_call_that_does_not_fit_is_reported() -> None:
    cell = run_cell(_case("misfit", (X,), {"mask": Y}, calls=[(X,)]), "portable:fp32")
    assert cell.status is Status.FAILED
    assert "do not fit the inputs that were exported" in (cell.error or "")


@pytest.mark.parametrize(
    "made",
    [
        Various(),
        (Various(),),
        (Various(), X),
        (Various(), [X]),
        (Various(), (X,), Y),
        (X, (X,)),
        (Various(), (X,), {}, {}),
    ],
)
def test_a_build_returns_a_module_and_its_inputs(made: Any) -> None:
    cell = run_cell(Case("wrong/build", lambda: made), "portable:fp32")
    assert (cell.status, cell.stage) == (Status.FAILED, "build")
    assert "build must return (module, tuple of inputs)" in (cell.error or "")


def test_a_call_is_a_tree() -> None:
    leaves = [
        leaf
        for leaf in torch.utils._pytree.tree_leaves(Call((X, [1]), {"b": Y, "a": None}))
        if leaf is not None
    ]
    assert leaves[1] == 1
    assert leaves[0] is X
    assert leaves[2] is Y


def test_a_tester_takes_calls_with_names() -> None:
    tester = Tester(CASES[3], "portable:fp32").export().lower().to_executorch().serialize()
    tester.run([Call((), {"mask": X, "x": Z})]).compare()
    assert tester.verdict.passed
    y = tester.execution.outputs[0][0]
    assert torch.allclose(y, Z * 2 + X)
