"""Operations of perturbed runs stay paired with the unperturbed run's where branches differ."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from harness.model.precision import Precision
from harness.numerics.arithmetic import Float64Mode
from harness.numerics.module_runs import run_calls_in_float64
from harness.numerics.oracle import Reference, compute_reference
from harness.numerics.pairing import Node, NodeNames
from harness.numerics.perturbation import PerturbedMode

Operation = Callable[[torch.Tensor], torch.Tensor]
# Rounding errors keep the middle ones on their side of a whole number; errors as large as a bound
# do not.
NEAR_WHOLE = torch.tensor([0.5, 2 - 7e-7, 3 + 7e-7, 7.25])
LARGE = torch.randn(256, 256)


class Branching(torch.nn.Module):
    """Runs ``extra`` where rounding errors make ``3 / 3 * 3`` larger than 3, then ``later``.

    Args:
        extra: runs in some of the perturbed runs alone; None for never.
        later: its results are returned.
        repeats: how often ``extra`` runs.
    """

    def __init__(self, extra: Operation | None, later: Operation, repeats: int = 1) -> None:
        super().__init__()
        self.extra, self.later, self.repeats = extra, later, repeats
        self.branches: list[bool] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        is_larger = bool((x.flatten()[:1] * 0 + 3).div(3).mul(3).item() > 3)
        self.branches.append(is_larger)
        if is_larger and self.extra is not None:
            for _ in range(self.repeats):
                self.extra(x)
        y = x / 3 * 3
        return self.later(y) + self.later(y + 1)


def reference(module: torch.nn.Module, x: torch.Tensor) -> Reference:
    return compute_reference(module, [(x,)], Precision(), 0)


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("extra", [torch.floor, torch.ceil, lambda x: x > 2])
def test_a_jump_of_some_runs_alone_changes_no_bound(extra: Operation, repeats: int) -> None:
    module = Branching(extra, torch.floor, repeats)
    found = reference(module, NEAR_WHOLE)
    unperturbed, perturbed = module.branches[:-8], module.branches[-8:]
    assert not any(unperturbed)
    assert 0 < sum(perturbed) < 8
    expected = reference(Branching(None, torch.floor), NEAR_WHOLE)
    torch.testing.assert_close(found.bound, expected.bound, rtol=0, atol=0)
    (bound,) = found.bound[0]
    assert bound is not None
    assert bound[1:3].min() >= 1, "both sides of the jump are reached"


@pytest.mark.parametrize(
    ("operation", "x"),
    [
        (torch.floor, NEAR_WHOLE),
        (torch.sqrt, NEAR_WHOLE),
        (lambda x: x.argmax(-1).float(), NEAR_WHOLE),
        (lambda x: x @ LARGE, LARGE),
    ],
    ids=["jump", "domain", "selection", "large sum"],
)
def test_the_same_operation_before_it_takes_no_name(
    operation: Operation, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[Node] = []
    add = NodeNames.add

    def record(self: NodeNames, operator: object) -> Node:
        named.append(add(self, operator))
        return named[-1]

    monkeypatch.setattr(NodeNames, "add", record)
    module = Branching(operation, operation)
    exact = Float64Mode()
    run_calls_in_float64(module, [(x,)], exact)
    unperturbed = named.copy()
    assert len(set(unperturbed)) == len(unperturbed) == 2
    counts = set()
    for sample in range(8):
        named.clear()
        mode = PerturbedMode(Precision(), 0, sample, exact.record)
        run_calls_in_float64(module, [(x,)], mode)
        assert named[-2:] == unperturbed
        counts.add(len(named))
    assert counts == {2, 3}
