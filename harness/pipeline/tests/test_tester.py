"""The tester: each stage alone, options of lowering, order of stages, checks, artifacts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import ExportPass
from torch.fx.passes.infra.pass_base import PassResult

from backends.null import Null
from backends.xnnpack.backend import make_partitioners
from harness import Case, Tester, run_cell
from harness.backend_api import Recipe
from harness.errors import (
    CheckFailure,
    ConflictingOptions,
    ProgramError,
    StageFailure,
    StageOrderError,
    UnknownTarget,
)
from harness.execution.execute import Interpreter
from harness.execution.kernels import AtenKernels
from harness.model.precision import Precision
from harness.pipeline import stages
from harness.pipeline.stages import LowerOptions
from harness.record.cell import Status


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.erf(self.linear(x)) + x[..., :5]


MLP = Case("mlp/erf", lambda: (Mlp(), (torch.randn(3, 6),)))


class ErfToAtan(ExportPass):
    """A pass whose effect is visible both in the graph and in the numbers."""

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        if op == exir_ops.edge.aten.erf.default:
            op = exir_ops.edge.aten.atan.default
        return super().call_operator(op, args, kwargs, meta)


class Nothing(ExportPass):
    def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
        return PassResult(graph_module, False)


def test_the_whole_pipeline_leaves_every_artifact() -> None:
    tester = Tester(MLP, "xnnpack:fp32").export().lower().to_executorch().serialize().run()
    assert tester.compare().verdict.passed
    assert tester.exported.graph_signature.user_inputs
    assert tester.program[4:8] == b"ET12"
    assert tester.execution.runtime == "native"
    assert tester.delegation.delegated_ops["aten.linear.default"] == 1
    assert tester.delegation.undelegated_ops == {"aten.erf.default": 1}
    assert tester.reference.oracle[0][0].dtype == torch.float64
    assert list(tester.seconds) == [
        "build", "export", "lower", "to_executorch", "serialize", "run", "reference", "compare",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("act", "missing"),
    [
        (lambda t: t.quantize(object()), "export"),
        (lambda t: t.to_edge(), "export"),
        (lambda t: t.export().transform([]), "to_edge"),
        (lambda t: t.lower(), "export"),
        (lambda t: t.export().to_executorch(), "lower"),
        (lambda t: t.export().lower().serialize(), "to_executorch"),
        (lambda t: t.run(), "serialize"),
        (lambda t: t.compare(), "run"),
        (lambda t: t.check([]), "export"),
        (lambda t: t.verdict, "compare"),
        (lambda t: t.program, "serialize"),
    ],
)
def test_a_stage_out_of_order_names_the_missing_one(
    act: Callable[[Tester], Any], missing: str
) -> None:
    with pytest.raises(StageOrderError, match=rf"needs stage '{missing}'"):
        act(Tester(MLP, "portable:fp32"))


Lower = Callable[[Sequence[Any]], Tester]


def _recipe_path(passes: Sequence[Any]) -> Tester:
    recipe = Recipe("fp32", Precision(), transform_passes=lambda: list(passes))
    return Tester(MLP, "portable:fp32", recipe=recipe).export().lower()


@pytest.mark.parametrize(
    "lower",
    [
        lambda p: Tester(MLP, "portable:fp32", transform_passes=p).export().lower(),
        lambda p: Tester(MLP, "portable:fp32").export().lower(transform_passes=p),
        lambda p: Tester(MLP, "portable:fp32").export().lower(LowerOptions(transform_passes=p)),
        lambda p: Tester(MLP, "portable:fp32", transform_passes=p).export().lower(LowerOptions()),
        lambda p: Tester(MLP, "portable:fp32").export().to_edge().transform(p).lower(),
        lambda p: Tester(MLP, "portable:fp32", transform_passes=p).export().to_edge().lower(),
        lambda p: Tester(MLP, "portable:fp32", transform_passes=p)
        .export().to_edge().transform().lower(),
        lambda p: Tester(MLP, "portable:fp32").export().to_edge().lower(transform_passes=p),
        lambda p: Tester(MLP, "xnnpack:fp32").export().lower(
            LowerOptions(make_partitioners(), tuple(p), EdgeCompileConfig())),
        _recipe_path,
    ],
)  # fmt: skip
def test_transform_passes_reach_lowering_on_every_path(lower: Lower) -> None:
    tester = lower([ErfToAtan()])
    tester.check(["aten.atan.default"]).check_not(["aten.erf.default"])
    tester.to_executorch().serialize().run().compare()
    assert not tester.verdict.passed, "the lowered program was executed"


@pytest.mark.parametrize(
    "lower",
    [
        lambda a, b: Tester(MLP, "portable:fp32", transform_passes=[a]).export()
        .lower(transform_passes=[b]),
        lambda a, b: Tester(MLP, "portable:fp32", transform_passes=[a]).export()
        .lower(LowerOptions(transform_passes=(b,))),
        lambda a, b: Tester(MLP, "portable:fp32").export()
        .lower(LowerOptions(transform_passes=(a,)), transform_passes=[b]),
        lambda a, b: Tester(MLP, "portable:fp32").export().to_edge().transform([a])
        .lower(transform_passes=[b]),
        lambda a, b: Tester(MLP, "portable:fp32", transform_passes=[a]).export().to_edge()
        .transform([b]),
        lambda a, b: Tester(MLP, "portable:fp32").export()
        .lower(LowerOptions(), partitioners=[a]),
    ],
)  # fmt: skip
def test_two_ways_that_disagree_raise(lower: Callable[[Any, Any], Tester]) -> None:
    with pytest.raises(ConflictingOptions):
        lower(ErfToAtan(), Nothing())


def test_the_same_passes_given_twice_agree() -> None:
    passes = [ErfToAtan()]
    tester = Tester(MLP, "portable:fp32", transform_passes=passes).export()
    tester.lower(LowerOptions(transform_passes=tuple(passes))).check(["aten.atan.default"])


def test_failed_checks_name_the_operators_of_the_graph() -> None:
    tester = Tester(MLP, "portable:fp32").export().to_edge()
    erf = exir_ops.edge.aten.erf.default
    tester.check([erf]).check_count({"aten.erf.default": 1}).check_node_count({erf: 1})
    tester.check_not(["aten.atan.default"]).lower().check_delegates(0)
    for broken in (
        lambda: tester.check(["aten.atan.default"]),
        lambda: tester.check_not([erf]),
        lambda: tester.check_count({erf: 2}),
        lambda: tester.check_node_count({erf: 0}),
        lambda: tester.check_delegates(1),
    ):
        with pytest.raises(CheckFailure, match=r"erf|delegates"):
            broken()


def test_stages_work_alone() -> None:
    module, inputs = MLP.make().module, MLP.make().inputs
    exported = stages.export(module, inputs)
    one_step = stages.lower(exported, LowerOptions(make_partitioners()))
    two_steps = stages.lower_edge(stages.to_edge(exported), LowerOptions())
    program = stages.serialize(stages.to_executorch(two_steps))
    (output,) = Interpreter(program, {}, AtenKernels())(inputs)
    assert torch.allclose(output, module(*inputs), atol=1e-6)
    assert stages.serialize(stages.to_executorch(one_step))[4:8] == b"ET12"


def test_a_failing_stage_is_named() -> None:
    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    case = Case("branches/data", lambda: (Branches(), (torch.randn(3),)))
    with pytest.raises(StageFailure) as caught:
        Tester(case, "portable:fp32").export()
    assert caught.value.stage == "export"
    cell = run_cell(case, "portable:fp32")
    assert (cell.status, cell.stage) == (Status.FAILED, "export")
    assert cell.error
    assert "\n" not in cell.error
    assert cell.traceback


def test_a_case_that_cannot_be_built_is_a_failed_cell() -> None:
    def build() -> Any:
        raise ValueError("no such weights")

    cell = run_cell(Case("broken/build", build), "null:eager")
    assert (cell.status, cell.stage) == (Status.FAILED, "build")
    assert "no such weights" in str(cell.error)
    wrong = run_cell(Case("broken/type", lambda: torch.randn(2)), "null:eager")  # type: ignore[arg-type, return-value]
    assert "module, tuple" in str(wrong.error)


def test_inputs_that_do_not_fit_the_module_are_a_failed_cell() -> None:
    case = Case.from_module("linear/misfit", torch.nn.Linear(32, 64), (torch.randn(4, 31),))
    cell = run_cell(case, "portable:fp32")
    assert (cell.status, cell.stage) == (Status.FAILED, "build")
    assert "31" in str(cell.error)
    assert "\n" not in str(cell.error)


def test_a_given_backend_has_its_own_recipes() -> None:
    backend = Null()
    backend.recipes = {"other": backend.recipes["eager"]}
    cell = run_cell(MLP, "null:other", backend=backend)
    assert cell.status is Status.PASSED, cell.error
    with pytest.raises(UnknownTarget, match="other"):
        run_cell(MLP, "null:eager", backend=backend)


def test_a_program_that_cannot_be_read_is_a_failure_of_its_stage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tester = Tester(MLP, "null:eager").export().lower().to_executorch()
    whole = stages.serialize
    monkeypatch.setattr(stages, "serialize", lambda program: whole(program)[:40])
    with pytest.raises(StageFailure, match="cut short") as caught:
        tester.serialize()
    assert caught.value.stage == "serialize"


def test_required_delegation_is_a_verdict() -> None:
    recipe = Recipe("fp32", Precision(), require_delegation=True)
    cell = run_cell(MLP, "portable:fp32", recipe=recipe)
    assert (cell.status, cell.stage) == (Status.FAILED, "lower")
    assert "nothing was delegated" in str(cell.error)


def test_passed_but_nothing_delegated_is_visible() -> None:
    cell = run_cell(Case("erf/1d", lambda: (Erf(), (torch.randn(3),))), "xnnpack:fp32")
    assert cell.status is Status.PASSED
    assert cell.nothing_delegated
    assert cell.delegation.undelegated_ops == {"aten.erf.default": 1}


def test_a_cell_that_delegates_less_than_its_case_says_fails() -> None:
    case = Case("erf/1d", lambda: (Erf(), (torch.randn(3),)), fallbacks={"xnnpack:fp32": {}})
    cell = run_cell(case, "xnnpack:fp32")
    assert (cell.status, cell.stage) == (Status.FAILED, "lower")
    assert cell.error == "not delegated: aten.erf.default (1 instead of 0)"
    assert run_cell(case, "portable:fp32").status is Status.PASSED
    listed = replace(case, fallbacks={"xnnpack:fp32": {"aten.erf.default": 1}})
    assert run_cell(listed, "xnnpack:fp32").status is Status.PASSED


class Erf(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.erf(x)


@pytest.mark.parametrize("target", ["xnnpak:fp32", "xnnpack:fp23", "xnnpack"])
def test_an_unknown_target_is_named(target: str) -> None:
    with pytest.raises(UnknownTarget, match=r"xnnpack|fp32"):
        run_cell(MLP, target)


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ((), "takes 1 inputs, 0"),
        ((torch.randn(2, 6),), r"shape \(2, 6\)"),
        ((torch.randn(3, 6).double(),), "float64"),
    ],
)
def test_inputs_that_do_not_fit_the_program_are_refused(
    inputs: tuple[torch.Tensor, ...], problem: str
) -> None:
    tester = Tester(MLP, "null:eager").export().lower().to_executorch().serialize()
    with pytest.raises(ProgramError, match=problem):
        Interpreter(tester.program, {}, AtenKernels())(inputs)


@pytest.mark.parametrize("size", [0, 3, 8, 40, 200])
def test_a_truncated_program_is_refused(size: int) -> None:
    program = Tester(MLP, "null:eager").export().lower().to_executorch().serialize().program
    with pytest.raises(ProgramError):
        Interpreter(program[:size], {}, AtenKernels())


def test_a_delegate_that_no_backend_executes_is_named() -> None:
    tester = Tester(MLP, "xnnpack:fp32").export().lower().to_executorch().serialize()
    with pytest.raises(ProgramError, match="XnnpackBackend"):
        Interpreter(tester.program, {}, AtenKernels())


def test_other_inputs_get_a_reference_of_their_own() -> None:
    relu = Case("relu/one", lambda: (torch.nn.ReLU(), (torch.randn(8),)))
    tester = Tester(relu, "null:eager").export().lower().to_executorch().serialize()
    assert tester.run().compare().verdict.passed
    assert tester.run([(torch.randn(8) * 1e6,)]).compare().verdict.passed


def test_lowering_again_discards_artifacts_of_the_first_time() -> None:
    tester = Tester(MLP, "xnnpack:fp32").export().lower().to_executorch().serialize()
    assert tester.delegation.delegates == 2
    tester.run().compare().lower(partitioners=[])
    assert tester.delegation.delegates == 0
    for stale in ("program", "execution", "reference", "verdict"):
        with pytest.raises(StageOrderError):
            getattr(tester, stale)


def test_a_graph_of_quantized_weights_is_not_a_quantized_graph() -> None:
    tester = Tester(MLP, "null:eager").quantize_weights(lambda module: module).export()
    assert isinstance(tester.reference_module, torch.fx.GraphModule)
    with pytest.raises(StageOrderError, match="quantize"):
        tester.quantized  # noqa: B018


def _batched() -> Case:
    return Case("mlp/batched", lambda: (torch.nn.Linear(6, 5), (torch.randn(3, 6),)))


def test_quantizing_keeps_how_the_program_was_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = torch.export.Dim("batch", min=2, max=8)
    tester = Tester(_batched(), "xnnpack:int8").export(dynamic_shapes=({0: batch},), strict=True)
    seen: list[dict[str, Any]] = []
    export = stages.export
    monkeypatch.setattr(
        stages, "export", lambda *args, **options: seen.append(options) or export(*args, **options)
    )
    tester.quantize()
    assert seen == [{"dynamic_shapes": ({0: batch},), "strict": True}]
    symbols = [node.meta["val"].shape[0] for node in tester.exported.graph.nodes
               if node.op == "placeholder" and node.name == "input"]  # fmt: skip
    assert symbols
    assert not any(isinstance(size, int) for size in symbols)


class Published(Mlp):
    constant_methods: dict[str, Any] = {"limit": 7}


def published(tester: Tester) -> set[str]:
    program = tester.to_executorch().executorch_program
    return set(program.methods) | {plan.name for plan in program.executorch_program.execution_plan}


PUBLISHED = Case("mlp/published", lambda: (Published(), (torch.randn(3, 6),)))


@pytest.mark.parametrize(
    "lower",
    [
        lambda t: t.lower(),
        lambda t: t.lower(LowerOptions()),
        lambda t: t.lower(LowerOptions(make_partitioners())),
        lambda t: t.lower(partitioners=make_partitioners()),
        lambda t: t.to_edge().lower(),
        lambda t: t.to_edge().transform([Nothing()]).lower(LowerOptions(make_partitioners())),
    ],
)
def test_published_constants_reach_the_program_on_every_path(
    lower: Callable[[Tester], Tester],
) -> None:
    assert "limit" in published(lower(Tester(PUBLISHED, "portable:fp32").export()))


def test_options_name_other_constant_methods() -> None:
    options = LowerOptions(constant_methods={"other": 1})
    names = published(Tester(PUBLISHED, "portable:fp32").export().lower(options))
    assert "other" in names
    assert "limit" not in names


@pytest.mark.parametrize(
    "options",
    [LowerOptions(constant_methods={"other": 1}), LowerOptions(edge_config=EdgeCompileConfig())],
)
def test_options_fixed_by_the_edge_program_cannot_be_given_again(options: LowerOptions) -> None:
    tester = Tester(PUBLISHED, "portable:fp32").export().to_edge()
    with pytest.raises(ConflictingOptions, match=r"to_edge\(\)"):
        tester.lower(options)


def test_an_edge_configuration_reaches_lowering() -> None:
    sort = Case("sort/one", lambda: (Sorted(), (torch.randn(3, 6),)))
    config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
    for lower in (
        lambda t: t.lower(edge_config=config),
        lambda t: t.lower(LowerOptions(edge_config=config)),
        lambda t: t.to_edge(config).lower(),
    ):
        tester = lower(Tester(sort, "portable:fp32").export())
        tester.check_not(["dim_order_ops._to_dim_order_copy.default"])
        tester.check(["aten._to_copy.default"])


class Sorted(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float64) * 2


class Counted(torch.nn.Module):
    """Counts its calls in integers, whose values exir tracks."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(4, dtype=torch.int64))
        self.register_buffer("last", torch.zeros(1, 4), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        self.last[0].copy_(x[0])
        return x * self.calls.to(torch.float32) + self.last


@pytest.mark.parametrize("target", ["mlx:fp32", "metal:fp32", "tosa:fp", "xnnpack:fp32"])
def test_lowering_writes_to_no_buffer_of_the_module(target: str) -> None:
    """Lowering must not write to the module's buffers, because the module is the reference."""
    more = [(torch.randn(3, 4),) for _ in range(2)]
    case = Case("counted/calls", lambda: (Counted(), (torch.randn(3, 4),)), calls=lambda: more)
    tester = Tester(case, target).export().lower().to_executorch().serialize().run().compare()
    assert tester.verdict.problem is None
    assert tester.built.module.calls.tolist() == [0, 0, 0, 0]
    assert tester.built.module.last.tolist() == [[0, 0, 0, 0]]
