"""Settings of a target: they change the program, and a setting without effect is red."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from executorch import exir
from torch import nn

from harness import Case, Status, Target, Tester, UsageError, check, run_cell
from harness.errors import UnknownTarget
from harness.model import registry
from harness.model.variations.covering import cover_pairs, list_choices, vary_target, vary_targets
from harness.model.variations.passes import list_known_passes
from harness.model.variations.varied_recipe import list_settings
from harness.pipeline import stages


class Net(nn.Module):
    """A program that each setting changes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.linear = nn.Linear(8, 8)
        self.last = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.conv(x)
        y = (y + y).expand(1, 4, 8, 8)
        z = self.last(self.linear(y.reshape(-1, 8)))
        return nn.functional.glu(torch.stack([z, z * 2])), z.view(4, -1)


NET = Case("net", lambda: (Net(), (torch.randn(1, 4, 8, 8),)))

TARGETS = [
    f"{text}+{name}"
    for text, names in {
        "xnnpack:fp32": "inline_delegates per_op transform_passes",
        "portable:fp32": "strict skip_dim_order preserve_ops naive_memory unplanned_io view_copies",
        "xnnpack:int8": "symmetric_codes operator_types float_linear qat",
        "xnnpack:int8_dynamic": "merged_dynamic",
        "tosa:int": "layer_types symmetric_codes io one_weight_scale qat",
    }.items()
    for name in names.split()
]
# These change nothing in this program.
WITHOUT_EFFECT = {"portable:fp32+strict"}


def test_settings_are_listed_without_the_package_of_a_partitioner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def make_partitioners() -> Any:
        raise ModuleNotFoundError("No module named 'openvino'")

    recipe = replace(registry.recipe(Target.parse("xnnpack:fp32")), partitioners=make_partitioners)
    monkeypatch.setattr(registry, "recipe", lambda *_: recipe)
    choices = list_choices(Target.parse("xnnpack:fp32"))
    assert "strict" in {name for names in choices.values() for name in names}


def lower(target: str) -> Tester:
    tester = Tester(NET, target)
    tester.export()
    if tester.recipe.quantizer is not None:
        tester.quantize()
    return tester.lower().to_executorch().serialize()


@pytest.mark.nightly
@pytest.mark.parametrize("target", TARGETS)
def test_a_setting_changes_the_program_and_not_the_verdict(target: str) -> None:
    varied = run_cell(NET, target)
    assert varied.status is Status.PASSED, varied.error
    assert varied.delegation.delegates or target.startswith("portable")
    if target not in WITHOUT_EFFECT:
        base = str(Target.parse(target).base)
        assert lower(target).program != lower(base).program


@pytest.mark.parametrize(
    ("target", "stage", "said"),
    [
        ("portable:fp32+preserve_ops", "lower", "preserve_ops had no effect: 2 aten.linear"),
        ("xnnpack:fp32+skip_dim_order", "lower", "_skip_dim_order had no effect"),
        ("xnnpack:fp32+inline_delegates", "emit", "extract_delegate_segments=False had no effect"),
        ("xnnpack:fp32+unplanned_io", "emit", "alloc_graph_input=False had no effect"),
    ],
)
@pytest.mark.one_of(4)
def test_a_setting_that_upstream_ignores_is_red(
    monkeypatch: pytest.MonkeyPatch, target: str, stage: str, said: str
) -> None:
    lower_upstream, emit = stages.to_edge_transform_and_lower, stages.to_executorch

    def ignore(*args: Any, compile_config: exir.EdgeCompileConfig, **more: Any) -> Any:
        config = exir.EdgeCompileConfig(_check_ir_validity=False)
        return lower_upstream(*args, compile_config=config, **more)

    if stage == "lower":
        monkeypatch.setattr(stages, "to_edge_transform_and_lower", ignore)
    else:
        monkeypatch.setattr(stages, "to_executorch", lambda lowered, config: emit(lowered))
    cell = run_cell(NET, target)
    assert (cell.status, cell.stage) == (Status.FAILED, "lower")
    assert said in (cell.error or "")


@pytest.mark.nightly
def test_a_quantizer_that_ignores_a_layer_type_is_an_error() -> None:
    tester = Tester(NET, "xnnpack:int8+layer_types")
    tester.export()
    with pytest.raises(Exception, match=r"set_module_type\(Conv2d\) has no effect"):
        tester.quantize()
    linear = Case("linear", lambda: (nn.Linear(4, 4).eval(), (torch.randn(2, 4),)))
    assert run_cell(linear, "xnnpack:int8+layer_types").status is Status.PASSED


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("portable:fp32+strikt", "no pass or setting 'strikt' .*did you mean 'strict'"),
        ("portable:fp32+inline_delegates", "cannot have the setting 'inline_delegates': it has no"),
        ("xnnpack:fp32+preserve_ops", "ignores preserve_ops where there is a partitioner"),
        ("mlx:fp32+skip_dim_order", "skips dim orders already"),
        ("xnnpack:fp32+layer_types", "it has no quantizer"),
        ("xnnpack:fp32+per_op+one_precision", r"two settings of one choice \(partitioner\)"),
        ("xnnpack:int8_dynamic+per_op", "it quantizes dynamically"),
    ],
)
def test_a_setting_that_cannot_be_is_an_error(target: str, said: str) -> None:
    with pytest.raises(UnknownTarget, match=said):
        registry.recipe(Target.parse(target))


def test_a_name_is_a_pass_or_a_setting() -> None:
    for name in registry.names():
        backend = registry.backend(name)
        assert not list_settings(backend).keys() & list_known_passes(backend).keys()


def test_passes_and_settings_combine() -> None:
    recipe = registry.recipe(Target.parse("xnnpack:fp32+strict+lift+naive_memory"))
    assert recipe.name == "fp32+strict+lift+naive_memory"
    assert recipe.strict
    assert len(recipe.added) == len(recipe.transform_passes()) == 1


def test_rows_cover_all_pairs() -> None:
    factors = ["abc", "xy", "12", "?"]
    rows = cover_pairs(factors)
    assert len(rows) < 3 * 2 * 2
    for first in range(4):
        for second in range(first):
            pairs = {(row[first], row[second]) for row in rows}
            assert len(pairs) == len(factors[first]) * len(factors[second])
    assert cover_pairs(["ab"]) == [["a"], ["b"]]


def test_all_variations_of_a_target_exist_and_differ() -> None:
    target = Target.parse("xnnpack:int8")
    varied = vary_target(target)
    assert len(set(varied)) == len(varied)
    named = {name[1:] for each in varied for name in each.passes}
    assert named == {name for names in list_choices(target).values() for name in names}
    for each in varied:
        registry.recipe(each)


def test_targets_are_varied_where_they_can_be() -> None:
    targets = [Target.parse("portable:fp32"), Target.parse("xnnpack:fp32")]
    assert [str(each) for each in vary_targets(targets, "per_op,strict")] == [
        "portable:fp32",
        "portable:fp32+strict",
        "xnnpack:fp32",
        "xnnpack:fp32+per_op",
        "xnnpack:fp32+strict",
    ]
    assert vary_targets(targets, "") == targets
    with pytest.raises(UnknownTarget, match="no target can have a setting 'layer_types'"):
        vary_targets(targets, "layer_types")


def test_check_takes_settings() -> None:
    module, inputs = nn.Linear(4, 4), (torch.randn(2, 4),)
    cells = check(module, inputs, ["portable:fp32"], vary="strict,naive_memory")
    assert [cell.target for cell in cells] == [
        "portable:fp32",
        "portable:fp32+strict",
        "portable:fp32+naive_memory",
    ]
    assert all(cell.status is Status.PASSED for cell in cells)
    with pytest.raises(UsageError, match="strikt"):
        check(module, inputs, ["portable:fp32"], vary="strikt")
