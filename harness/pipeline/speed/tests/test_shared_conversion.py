"""What targets of one case share of decomposing is what each would get."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig
from torch.export import ExportedProgram, default_decompositions, export

from harness import Case, Tester
from harness.errors import StageFailure
from harness.pipeline import speed
from harness.pipeline.route import lower
from harness.pipeline.shared_case_work import SharedCaseWork
from harness.pipeline.speed.export import decompositions
from harness.pipeline.speed.export.functionalization import copy_program
from harness.pipeline.speed.tests.graphs import NET, Net, are_alike

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def _installed() -> None:
    speed.install()


def test_targets_share_decompositions_and_each_gets_what_it_would(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, upstream, asked = decompositions._decompose_copy, decompositions._upstream, list[int]()
    shared: list[ExportedProgram] = []

    def counted(*args: Any) -> ExportedProgram:
        asked.append(1)
        return upstream(*args)

    def compared(of: Any, program: ExportedProgram, table: Any) -> ExportedProgram:
        before, given = len(asked), copy_program(program)
        made = ours(of, program, table)
        if len(asked) == before:
            are_alike(made, upstream(given, table))
            shared.append(made)
        return made

    monkeypatch.setattr(decompositions, "_upstream", counted)
    monkeypatch.setattr(decompositions, "_decompose_copy", compared)
    shared_work = SharedCaseWork()
    for target in ("xnnpack:fp32", "tosa:fp", "mlx:fp32", "portable:fp32"):
        lower(Tester(NET, target, shared_work=shared_work))
    assert shared


def _functional() -> ExportedProgram:
    return export(Net(), (torch.randn(2, 3, 8, 8),))


def _made(program: ExportedProgram, *left: Any) -> set[Any]:
    """The operators of a program that was decomposed but for some."""
    table = default_decompositions()
    for op in left:
        table.pop(op, None)
    made = program.run_decompositions({}).run_decompositions(table)
    return {node.target for node in made.graph.nodes}


def test_what_is_left_whole_and_met_makes_another(decompositions: list[Any]) -> None:
    program = _functional()
    assert aten.linear.default not in _made(program)
    assert aten.linear.default in _made(program, aten.linear.default)
    assert len(decompositions) == 2
    assert aten.linear.default not in _made(program, aten.upsample_bilinear2d.vec)
    assert len(decompositions) == 2, "it has no upsampling"


@pytest.mark.filterwarnings("ignore:The tensor attributes")
def test_an_operator_that_a_decomposition_calls_counts_as_met(decompositions: list[Any]) -> None:
    class Recurrent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(3, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.lstm(x)[0]
            return y

    program = export(Recurrent(), (torch.randn(2, 1, 3),))
    assert aten.linear.default not in {node.target for node in program.graph.nodes}
    assert aten.linear.default not in _made(program)
    assert aten.linear.default in _made(program, aten.linear.default)


def test_an_outcome_that_somebody_changed_is_made_anew(decompositions: list[Any]) -> None:
    program = _functional()
    functional = program.run_decompositions({})
    first = functional.run_decompositions(default_decompositions())
    with torch.no_grad():
        next(iter(first.state_dict.values())).add_(1)
    program.run_decompositions({}).run_decompositions(default_decompositions())
    assert len(decompositions) == 2


def test_where_composite_operators_are_not_seen_nothing_is_shared(
    decompositions: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "harness.pipeline.speed.export.decompositions.can_record_operators", lambda: False
    )
    program = _functional()
    _made(program)
    _made(program)
    assert len(decompositions) == 2


class Buckets(torch.nn.Module):
    """Of an operator that is not core ATen."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.bucketize(x, torch.tensor([0.0, 1.0]))


def test_each_target_verifies_what_was_made_for_another() -> None:
    case, shared_work = (
        Case("test/buckets", lambda: (Buckets(), (torch.randn(3),))),
        SharedCaseWork(),
    )
    lax = EdgeCompileConfig(_check_ir_validity=False)
    Tester(case, "portable:fp32", shared_work=shared_work).export().lower(edge_config=lax)
    with pytest.raises(StageFailure, match=r"bucketize\S* is not in Core ATen"):
        Tester(case, "portable:fp32", shared_work=shared_work).export().lower()


def test_one_that_a_target_goes_on_changing_is_handed_out_as_it_was() -> None:
    shared_work, made = SharedCaseWork(), []
    for target in ("tosa:fp", "xnnpack:fp32", "tosa:fp"):
        tester = Tester(NET, target, shared_work=shared_work)
        lower(tester)
        made.append(tester.lowered.exported_program().graph_module.code)
    assert made[0] == made[2]
