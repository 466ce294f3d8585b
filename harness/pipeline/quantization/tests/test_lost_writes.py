"""A write in place that quantization separates from the tensor is red, and any other is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from harness import Case, Status, run_cell

Write = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Net(torch.nn.Module):
    def __init__(self, write: Write) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 6), torch.nn.Linear(6, 4)
        self.register_buffer("seen", torch.zeros(6))
        self.write = write

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(self.write(self.first(x), self.seen))
        return result


def run(write: Write, target: str) -> tuple[Status, str]:
    case = Case(
        "net",
        lambda: (Net(write).eval(), (torch.randn(5, 8),)),
        calls=lambda: [(torch.randn(5, 8),)],
    )
    cell = run_cell(case, target)
    return cell.status, cell.error or ""


def zero_part(y: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    y[:, :3] = 0.0
    return y


def set_column(y: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    y[:, 0] = y[:, 5]
    return y


@pytest.mark.one_of(3)
@pytest.mark.parametrize("target", ["xnnpack:int8", "xnnpack:int8_dynamic", "tosa:int"])
def test_a_write_to_a_part_is_lost(target: str) -> None:
    status, error = run(zero_part, target)
    assert status is Status.FAILED
    assert "the module was quantized wrongly: quantization copies " in error
    assert "loses the write of " in error
    assert "test_lost_writes.py:" in error


@pytest.mark.one_of(2)
@pytest.mark.parametrize("target", ["xnnpack:int8", "xnnpack:int8_dynamic"])
def test_a_write_that_another_reader_does_not_see_is_lost(target: str) -> None:
    """XNNPACK's quantizer does not observe the selected column. In 8 bits that column and the layer
    get dequantize nodes of their own; dynamic quantization quantizes before the write."""
    status, error = run(set_column, target)
    assert status is Status.FAILED
    assert "loses the write of copy_" in error


def store(y: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    seen.copy_(y.mean(0))
    return y + seen


def count(y: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    seen.copy_(seen + 1)
    return y * seen


def clone_and_write(y: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    part = y.sigmoid()
    part[:, :3].mul_(0.0)
    return y


@pytest.mark.one_of(12)
@pytest.mark.parametrize("target", ["xnnpack:int8", "tosa:int"])
@pytest.mark.parametrize(
    "write",
    [lambda y, _: y.relu_(), lambda y, _: y.add_(1.0).mul_(y), store, count, clone_and_write],
    ids=["activation", "arithmetic", "buffer", "counter", "unread"],
)
def test_other_writes_are_kept(write: Write, target: str) -> None:
    status, error = run(write, target)
    assert status is Status.PASSED, error
