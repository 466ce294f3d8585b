"""Operators whose module stores operands."""

from __future__ import annotations

import pytest
import torch

from suites.ops import matmul
from suites.variations.stored import CASES

_ADDMM = next(case for case in matmul.CASES if case.name == "addmm/beta_alpha")
_STORED = [case for case in CASES if case.name.startswith("stored/addmm_beta_alpha_")]


def test_each_operand_is_the_input_once() -> None:
    assert [case.name[-1] for case in _STORED] == ["0", "1", "2"]


@pytest.mark.parametrize("place", range(3))
def test_the_result_is_that_of_inputs(place: int) -> None:
    torch.manual_seed(0)
    module, operands = _ADDMM.build()
    torch.manual_seed(0)
    stored, inputs = _STORED[place].build()
    assert torch.equal(inputs[0], operands[place])
    assert torch.equal(stored(*inputs), module(*operands))
    assert len(list(stored.parameters())) == 2
