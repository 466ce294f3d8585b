"""Requirements on every backend; a registered backend gets these tests automatically."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from harness import Case, Status, Target, registry, run_cell
from harness.backend_api import Backend, list_native_backends
from harness.errors import UnknownTarget
from harness.model.backend import MissingBackend
from harness.model.selection import parse_targets

BACKENDS = registry.names()
TARGETS = list(registry.known_targets())
IN_PLAIN_RUN = {target.backend for target in registry.default_targets()}


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


SMALL = Case("small/linear_relu", lambda: (Small(), (torch.randn(3, 32),)))


@pytest.mark.parametrize("name", BACKENDS)
def test_a_backend_is_data_and_answers(name: str) -> None:
    backend = registry.backend(name)
    assert isinstance(backend, Backend)
    assert not isinstance(backend, MissingBackend), backend.availability().reason
    assert backend.name == name
    assert backend.recipes
    for recipe_name, recipe in backend.recipes.items():
        assert recipe.name == recipe_name
        assert Target.parse(f"{name}:{recipe_name}")
    state = backend.availability()
    assert state.available or state.reason
    assert state.runtime in ("native", "reference", "emulated", "none")


# Its quantizer exports hundreds of patterns first.
SLOW = ("coreml:int8", "coreml:int8_pt2e_weights")


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    "target",
    [
        pytest.param(each, marks=pytest.mark.nightly if str(each) in SLOW else ())
        for each in TARGETS
    ],
    ids=str,
)
def test_a_target_runs_a_small_program(target: Target) -> None:
    state = registry.backend(target.backend).availability()
    # A backend without a recipe in the plain run may need packages of an extra.
    if not state.available and target.backend not in IN_PLAIN_RUN:
        pytest.skip(state.reason)
    cell = run_cell(SMALL, target)
    assert cell.status is Status.PASSED, f"{cell.stage}: {cell.error}"
    assert cell.runtime == state.runtime
    assert cell.program_bytes > 0


@pytest.mark.parametrize(
    "target", ["xnnpack:fp32", "tosa:fp", "tosa:int", "mlx:fp32", "metal:fp32"]
)
def test_a_delegating_target_delegates_all_of_it(target: Target) -> None:
    delegation = run_cell(SMALL, target).delegation
    assert delegation.delegates == 1
    left = [name for name in delegation.undelegated_ops if "quantize_per" not in name]
    assert not left


def test_the_registry_lists_the_default_targets() -> None:
    assert [str(target) for target in registry.default_targets()] == [
        "portable:fp32",
        "xnnpack:fp32",
        "tosa:fp",
        "tosa:int",
        "mlx:fp32",
        "metal:fp32",
    ]


@pytest.mark.parametrize(
    ("targets", "target", "selected", "nightly"),
    [
        ("", "mlx:bf16", "", True),
        ("", "mlx:fp32", "", False),
        ("mlx:*", "mlx:bf16", "", True),
        ("mlx:bf16", "mlx:bf16", "", False),
        ("metal:fp32|mlx:bf16", "mlx:bf16", "", False),
        ("", "mlx:bf16", "mlx:bf16", False),
        ("mlx:*", "mlx:int4", "", False),
    ],
)
def test_nightly_selection(targets: str, target: str, selected: str, nightly: bool) -> None:
    case = replace(SMALL, targets=targets)
    chosen = parse_targets(selected.split()) if selected else None
    assert registry.is_nightly(case, Target.parse(target), chosen) is nightly


def test_a_backend_alone_means_its_defaults() -> None:
    assert parse_targets(["tosa"]) == [Target("tosa", "fp"), Target("tosa", "int")]


@pytest.mark.parametrize(
    ("text", "hint"), [("tossa:fp", "tosa"), ("tosa:fpp", "fp"), ("nothing:at_all", "portable")]
)
def test_unknown_targets_get_a_hint(text: str, hint: str) -> None:
    with pytest.raises(UnknownTarget, match=re.escape(hint)):
        parse_targets([text])


def test_a_backend_whose_package_is_missing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        registry.BUILT_IN, "gone", registry.BuiltIn("backends.gone:BACKEND", ("fp32",))
    )
    cell = run_cell(SMALL, "gone:fp32")
    assert cell.status is Status.UNAVAILABLE
    assert "backends.gone" in str(cell.error)


def test_the_native_runtime_has_xnnpack() -> None:
    assert "XnnpackBackend" in list_native_backends()
