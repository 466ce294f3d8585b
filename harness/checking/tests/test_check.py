"""``check`` returns a cell for each target, accepts several inputs and passes, writes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir.dialects._ops import ops
from executorch.exir.pass_base import ExportPass

import harness
from harness import Call, CaseError, CellOptions, Status, UsageError
from harness.errors import UnknownTarget


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(self.head(x).cumsum(-1))


class Wrong(ExportPass):  # type: ignore[misc]
    """Replaces each sine by a cosine."""

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        if op == ops.edge.aten.sin.default:
            op = ops.edge.aten.cos.default
        return super().call_operator(op, args, kwargs, meta)


def test_a_cell_for_each_target_and_nothing_written(folder: Path) -> None:
    before = sorted(folder.iterdir())
    cells = harness.check(
        Net(), (torch.randn(3, 6),), targets=["xnnpack:fp32", "null:eager"], seed=3
    )
    assert [cell.id for cell in cells] == ["Net@xnnpack:fp32", "Net@null:eager"]
    assert {cell.status for cell in cells} == {Status.PASSED}
    assert {cell.seed for cell in cells} == {3}
    assert sorted(folder.iterdir()) == before
    # Fallback operators have a reason.
    left = "the partitioner has no configuration for this operator"
    assert cells[0].delegation.undelegated_ops["aten.cumsum.default"] == 1
    assert cells[0].delegation.reasons["aten.cumsum.default"] == {left: 1}


def test_the_module_is_not_changed() -> None:
    module = torch.nn.Sequential(torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 2)).train()
    state = {name: value.clone() for name, value in module.state_dict().items()}
    (cell,) = harness.check(module, torch.randn(3, 6), "null:eager")
    assert cell.status is Status.PASSED
    assert module.training
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())
    assert all(parameter.requires_grad for parameter in module.parameters())


def test_sets_that_one_program_takes_are_its_calls() -> None:
    sets = [(torch.randn(3, 6),), (torch.randn(3, 6),), Call((), {"x": torch.randn(5, 6)})]
    cells = harness.check(Net(), sets, "null:eager", name="mine")
    assert [cell.case for cell in cells] == ["mine", "mine/inputs2"]
    assert [[row.shape for row in cell.numerics] for cell in cells] == [[[3, 4], [3, 4]], [[5, 4]]]


def test_a_dynamic_program_takes_sets_of_other_sizes() -> None:
    sets = [(torch.randn(4, 6),), (torch.randn(7, 6),)]
    (cell,) = harness.check(Net(), sets, "null:eager", dynamic="x:0")
    assert cell.status is Status.PASSED, cell.error
    assert [row.shape for row in cell.numerics] == [[4, 4], [7, 4], [2, 4], [8, 4]]
    assert cell.tags == ["dynamic", "model"]


def test_targets_with_equal_rounding_share_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.pipeline import shared_case_work

    add_bounds, made = shared_case_work.add_bounds, list[Any]()

    def counted(*args: Any, **kwargs: Any) -> Any:
        made.append(args)
        return add_bounds(*args, **kwargs)

    monkeypatch.setattr(shared_case_work, "add_bounds", counted)
    cells = harness.check(Net(), torch.randn(3, 6), "null:eager,portable:fp32")
    assert [cell.status for cell in cells] == [Status.PASSED] * 2
    assert len(made) == 1


def test_a_pass_that_changes_the_meaning_is_a_mismatch() -> None:
    inputs = torch.randn(3, 6)
    for given in (Wrong, Wrong()):
        (cell,) = harness.check(Net(), inputs, "null:eager", transform_passes=[given])
        assert cell.status is Status.MISMATCH


def test_a_pass_runs_before_those_of_the_target() -> None:
    (cell,) = harness.check(Net(), torch.randn(3, 6), "mlx:fp32", transform_passes=[Wrong])
    assert cell.status in (Status.MISMATCH, Status.UNAVAILABLE)
    assert "aten.sin.default" not in cell.delegation.delegated_ops


def test_a_model_that_does_not_export_names_its_line(folder: Path) -> None:
    from harness.checking import cases, check, model_sources

    subject = model_sources.load_model("my_model.py:Branching")
    (case,) = cases.plan_cases(subject).cases
    cell = check.check_cell(
        case, check.resolve_targets("null:eager")[0], seed=0, options=CellOptions()
    )
    assert (cell.status, cell.stage) == (Status.FAILED, "export")
    assert cell.model_frame is not None
    assert cell.model_frame.endswith("if x.sum() > 0:")
    assert "my_model.py:" in cell.model_frame


def test_misuse_is_an_error_and_no_cell() -> None:
    net, inputs = Net(), torch.randn(3, 6)
    with pytest.raises(UnknownTarget, match="did you mean 'xnnpack'"):
        harness.check(net, inputs, ["xnpack:fp32"])
    with pytest.raises(UsageError, match="empty list"):
        harness.check(net, [], "null:eager")
    with pytest.raises(UsageError, match="not int"):
        harness.check(net, 3, "null:eager")
    with pytest.raises(UsageError, match="a pass is called with a GraphModule"):
        harness.check(net, inputs, "null:eager", transform_passes=[3])
    with pytest.raises(
        CaseError, match=r"Net on the inputs example: the module itself cannot run: .*shapes"
    ):
        harness.check(net, torch.randn(3, 5), "null:eager")


class Mixed(torch.nn.Module):
    """XNNPACK takes the linear layer and leaves two operators to the runtime's kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.erf(self.layer(x)).cumsum(0)


def test_a_native_cell_has_the_time_of_its_delegates_and_fallback_nodes() -> None:
    native, emulated = harness.check(Mixed(), (torch.randn(32, 64),), "xnnpack:fp32,mlx:fp32")
    profile = native.profile
    assert profile is not None
    assert set(profile.fallback) == {"erf.out", "cumsum.out"}
    assert min(profile.delegates, *profile.fallback.values()) > 0
    assert 0 < profile.fallback_share < 1
    assert harness.Cell.from_json(native.to_json()).profile == profile
    assert emulated.runtime != "native"
    assert emulated.profile is None
