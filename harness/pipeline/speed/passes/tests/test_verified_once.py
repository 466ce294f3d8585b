"""Graphs that are not verified again are the ones that were, and the verifier still refuses."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge, to_edge_transform_and_lower
from executorch.exir.pass_manager import ExportedProgramPassManager
from torch._export.verifier import SpecViolationError
from torch.export import ExportedProgram, export
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule

from harness.pipeline.speed.passes import verification


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that upstream is asked to verify."""
    asked: list[Any] = []
    upstream = verification._upstream

    def noted(verifier: Any, module: GraphModule) -> None:
        asked.append(module)
        upstream(verifier, module)

    monkeypatch.setattr(verification, "_upstream", noted)
    return asked


def _edge() -> ExportedProgram:
    program: ExportedProgram = to_edge(
        export(torch.nn.ReLU(), (torch.randn(3),))
    ).exported_program()
    return program


def test_a_graph_is_verified_once(verified: list[Any]) -> None:
    program = _edge()
    program.validate()
    verified.clear()
    program.validate()
    ExportedProgramPassManager([]).check(program)
    assert not verified


@pytest.mark.parametrize(
    "checking", [ExportedProgram.validate, ExportedProgramPassManager([]).check]
)
def test_what_was_touched_is_refused(checking: Any) -> None:
    program = _edge()
    program.validate()
    relu = next(node for node in program.graph.nodes if node.op == "call_function")
    relu.target = torch.ops.aten.relu.default
    with pytest.raises(SpecViolationError, match="not an Edge operator"):
        checking(program)


@pytest.fixture
def validated(monkeypatch: pytest.MonkeyPatch) -> list[ExportedProgram]:
    """The programs that upstream is asked to verify."""
    asked: list[ExportedProgram] = []
    upstream = ExportedProgram.validate

    def noted(program: ExportedProgram) -> None:
        asked.append(program)
        upstream(program)

    monkeypatch.setattr(ExportedProgram, "validate", noted)
    return asked


def _as_it_was(program: ExportedProgram) -> None:
    pass


def _renamed(program: ExportedProgram) -> None:
    program.graph_signature.input_specs[0].arg.name = "another"


def _of_another_kind(program: ExportedProgram) -> None:
    program.graph_signature.input_specs[0].kind = InputKind.CUSTOM_OBJ


def _without_values(program: ExportedProgram) -> None:
    program.state_dict.clear()


def _with_values_of_another_type(program: ExportedProgram) -> None:
    program.state_dict.update({name: torch.zeros(1) for name in program.state_dict})


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        (_as_it_was, False),
        (_renamed, True),
        (_of_another_kind, True),
        (_without_values, True),
        (_with_values_of_another_type, True),
    ],
)
def test_a_program_is_verified_when_a_name_of_it_changes(
    change: Any, asked: bool, validated: list[ExportedProgram]
) -> None:
    edge = to_edge(export(torch.nn.Linear(2, 2), (torch.randn(1, 2),)))
    program = edge.exported_program()
    check = ExportedProgramPassManager([]).check
    program.validate()
    check(program)
    validated.clear()
    change(program)
    if asked:
        with pytest.raises((SpecViolationError, AttributeError)):
            check(program)
    else:
        check(program)
        check(copy.copy(program))
    assert bool(validated) is asked


def test_a_graph_that_another_verifier_saw_since_is_verified(
    validated: list[ExportedProgram],
) -> None:
    program = _edge()
    check = ExportedProgramPassManager([]).check
    program.validate()
    check(program)
    relu = next(node for node in program.graph.nodes if node.op == "call_function")
    relu.meta["val"] = relu.meta["val"].clone()
    other: Any = type("Other", (program.verifier,), {"dialect": "ANOTHER"})
    other()._check_graph_module(program.graph_module)
    validated.clear()
    check(program)
    assert validated == [program]


def test_another_verifier_looks_for_itself(verified: list[Any]) -> None:
    program = _edge()
    program.validate()
    verified.clear()
    program._verifiers = [type("Other", (program.verifier,), {"dialect": "ANOTHER"})]
    program.validate()
    assert len(verified) == 1


class _Sum(torch.nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sum(x, self.dim).relu()


class _Relus(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu().relu().relu()


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[GraphModule]:
    """The graphs whose operators upstream is asked to call; no call is known yet."""
    asked: list[GraphModule] = []
    upstream = verification._call_operators

    def noted(graph_module: GraphModule) -> None:
        asked.append(graph_module)
        upstream(graph_module)

    monkeypatch.setattr(verification, "_call_operators", noted)
    monkeypatch.setattr(verification, "_valid", {})
    return asked


def _forget(called: list[GraphModule]) -> None:
    verification._valid.clear()
    called.clear()


@pytest.mark.parametrize(
    ("module", "given", "is_known"),
    [
        (_Sum(-1), torch.zeros(3, 3), True),
        (_Relus(), torch.zeros(3), True),  # what the sum is
        (_Relus(), torch.zeros(3, 1), False),
        (_Sum(-2), torch.zeros(3, 3), False),  # hash(-1) == hash(-2)
        (_Sum(-1), torch.zeros(3, 4), False),
        (_Sum(-1), torch.zeros(3, 3, dtype=torch.float64), False),
    ],
)
def test_operators_are_not_called_again_with_what_they_took(
    module: torch.nn.Module, given: torch.Tensor, is_known: bool, called: list[GraphModule]
) -> None:
    graphs = [
        to_edge(export(each, (inputs,))).exported_program().graph_module
        for each, inputs in ((_Sum(-1), torch.ones(3, 3)), (module, given))
    ]
    _forget(called)
    for graph_module in graphs:
        verification._call_operators_once(graph_module)
    assert called == (graphs[:1] if is_known else graphs)


def test_operators_are_called_up_to_a_delegate(called: list[GraphModule]) -> None:
    program = export(_Sum(-1), (torch.ones(3, 3),))
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    lowered = edge.exported_program().graph_module
    delegates = [node for node in lowered.graph.nodes if node.op == "get_attr"]
    assert delegates
    _forget(called)
    for _ in range(2):
        verification._call_operators_once(lowered)
    assert called == [lowered]
    delegates[0].target = "gone"
    with pytest.raises(Exception, match="gone"):
        verification._call_operators_once(lowered)


def test_what_a_graph_says_of_a_known_call_is_looked_at() -> None:
    program = _edge()
    relu = next(node for node in program.graph.nodes if node.op == "call_function")
    relu.meta["val"] = relu.meta["val"].to(torch.float16)
    with pytest.raises(SpecViolationError, match="mismatched dtypes"):
        program.validate()


def test_what_operators_refuse_is_refused_each_time() -> None:
    for _ in range(2):
        program = _edge()
        relu = next(node for node in program.graph.nodes if node.op == "call_function")
        relu.meta["val"] = relu.meta["val"].to(torch.complex64)
        with pytest.raises(SpecViolationError, match="mismatched dtypes"):
            program.validate()


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
def test_graphs_are_written_where_somebody_reads_them(
    level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, lines = logging.getLogger(), _Lines()
    monkeypatch.setattr(root, "level", level)
    monkeypatch.setattr(root, "handlers", [lines])
    for name in ("convert_to_linear", "convert_to_sdpa"):
        logger = logging.getLogger(f"executorch.backends.xnnpack._passes.{name}")
        monkeypatch.setattr(logger, "level", level)
        logger.manager._clear_cache()  # type: ignore[attr-defined]
    program = export(torch.nn.Linear(2, 2), (torch.randn(1, 2),))
    to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    written = [line for line in lines.said if "def forward" in line]
    assert len(written) == (5 if level == logging.DEBUG else 0)
    assert "def forward" in str(program.graph_module)
