"""Inputs that a torch operator refuses are refused while lowering or by the program."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import harness
from harness import Case, ProgramError, Tester
from harness.model.case import Inputs
from harness.pipeline.route import lower
from suites.opinfo.sampling import REFUSALS, entries, program

_SHARES = 8
"""Number of tests among which the operators are divided. Tests named after operators would need
torch's database, and seconds, at collection."""


@functools.cache
def _with_errors() -> list[str]:
    return sorted(name for name, info in entries().items() if info.error_inputs_func)


def _refused(info: Any) -> Iterator[tuple[torch.nn.Module, Inputs]]:
    """Programs of error inputs that eager refuses; some are refused on GPUs only."""
    for error in info.error_inputs("cpu"):
        module, inputs = program(info, error.sample_input, strided=False)
        with warnings.catch_warnings():  # tests turn warnings into errors, which are not refusals
            warnings.simplefilter("ignore")
            try:
                module(*inputs)
            except REFUSALS:
                pass
            else:
                continue
        yield module, inputs


def test_there_are_error_inputs() -> None:
    assert len(_with_errors()) > 40
    assert sum(1 for name in _with_errors() for _ in _refused(entries()[name])) > 150


@pytest.mark.one_of(4)
@pytest.mark.parametrize("share", range(_SHARES))
def test_the_harness_refuses_inputs_that_eager_refuses(share: int) -> None:
    for name in _with_errors()[share::_SHARES]:
        for module, inputs in _refused(entries()[name]):
            cell = harness.run_cell(Case.from_module("refused", module, inputs), "portable:fp32")
            assert cell.status.is_red, (name, cell)
            assert cell.stage == "build", (name, cell)
            assert not cell.numerics, (name, cell)


class Indexed(torch.nn.Module):
    """An operator along the first dimension, with indices as an input."""

    def __init__(self, op: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.op = op

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return self.op(*tensors)


_X, _ROW = torch.randn(3, 4), torch.tensor([[0, 1, 2, 1]])
INDEXED: dict[str, tuple[Callable[..., torch.Tensor], Inputs]] = {
    "gather": (lambda x, at: x.gather(0, at), (_X, _ROW)),
    "index_select": (lambda x, at: x.index_select(0, at), (_X, _ROW[0])),
    "scatter": (lambda x, at, y: x.scatter(0, at, y), (_X, _ROW, _X[:1])),
    "scatter_add": (lambda x, at, y: x.scatter_add(0, at, y), (_X, _ROW, _X[:1])),
    "index_put": (lambda x, at, y: x.index_put((at,), y), (_X, _ROW[0], torch.randn(4, 4))),
}


@pytest.mark.one_of(4)
@pytest.mark.parametrize("target", ["portable:fp32", "xnnpack:fp32", "tosa:fp", "mlx:fp32"])
@pytest.mark.parametrize("name", INDEXED)
def test_a_program_refuses_an_index_that_is_out_of_bounds(name: str, target: str) -> None:
    """The program refuses the index when it runs, not earlier."""
    op, (x, at, *rest) = INDEXED[name]
    tester = Tester(Case.from_module(name, Indexed(op), (x, at, *rest)), target)
    lower(tester)
    assert len(harness.execute(tester.program, [(x, at, *rest)])) == 1
    with pytest.raises(ProgramError):
        harness.execute(tester.program, [(x, torch.full_like(at, 23), *rest)])
