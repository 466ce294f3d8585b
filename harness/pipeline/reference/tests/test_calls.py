"""Calls that show the state of a program."""

from __future__ import annotations

import pytest
import torch

from harness.numerics.module_runs import EagerRuns
from harness.pipeline.reference.calls import MOST_FURTHER_CALLS, add_observing_calls


class _Delay(torch.nn.Module):
    """Returns an input of earlier calls; a later buffer holds the older one.

    Args:
        length: number of buffers.
        bounded: whether the module rejects a call when all buffers are in use.
    """

    def __init__(self, length: int, size: int = 2, bounded: bool = False) -> None:
        super().__init__()
        self.names = [f"held_{number}" for number in range(length)]
        self.bounded = bounded
        for name in self.names:
            self.register_buffer(name, torch.zeros(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        held = [getattr(self, name) for name in self.names]
        if self.bounded and bool(held[-1].any()):
            raise RuntimeError("full")
        oldest = held[-1] * 1.0
        for newer, older in zip(reversed(held[:-1]), reversed(held[1:]), strict=True):
            older.copy_(newer)
        held[0].copy_(x)
        return oldest


@pytest.mark.parametrize(
    ("length", "size", "bounded", "expected"),
    [
        (1, 2, False, 1),
        (2, 2, False, 2),
        (9, 2, False, MOST_FURTHER_CALLS),
        (2, 2**20, False, 1),
        (3, 2, True, 2),
    ],
    ids=["one buffer", "two", "many", "large", "rejected"],
)
def test_each_written_buffer_gets_a_call(
    length: int, size: int, bounded: bool, expected: int
) -> None:
    module, x = _Delay(length, size), torch.ones(size)
    exported = torch.export.export(module, (x,))
    calls = add_observing_calls(EagerRuns(0), _Delay(length, size, bounded), exported, [(x,)])
    assert len(calls) == 1 + expected
