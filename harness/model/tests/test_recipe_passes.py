"""``backend:recipe+pass`` and ``backend:recipe-pass``."""

from __future__ import annotations

import pytest
import torch

from harness import Case, Limitation, Status, Target, run_cell
from harness.errors import UnknownTarget
from harness.model import registry
from harness.model.limitation import find_limitation
from harness.model.selection import parse_targets
from harness.model.variations.passes import GENERAL, list_known_passes, pass_name


@pytest.mark.parametrize(
    "text", ["mlx:fp32-cse", "xnnpack:int8+cse+remove_noop", "mlx:fp32-passes"]
)
def test_spelling_and_target_are_inverse(text: str) -> None:
    target = Target.parse(text)
    assert str(target) == text
    assert str(target.base) == text.split("+")[0].split("-")[0]


@pytest.mark.parametrize("text", ["mlx:fp32-", "mlx:fp32+-cse", "mlx+cse:fp32", "mlx:fp32 +cse"])
def test_invalid_spellings_are_refused(text: str) -> None:
    with pytest.raises(UnknownTarget, match="not spelled"):
        Target.parse(text)


def _passes(text: str) -> list[str]:
    return [pass_name(made) for made in registry.recipe(Target.parse(text)).transform_passes()]


def test_passes_of_a_recipe() -> None:
    own = _passes("mlx:fp32")
    assert own[0] == "fuse_rms_norm"
    assert own[-1] == "mlx_reinplace"
    assert _passes("mlx:fp32-cse-fuse_rms_norm") == [
        name for name in own if name not in ("cse", "fuse_rms_norm")
    ]
    assert _passes("mlx:fp32-passes") == []
    assert _passes("mlx:fp32-passes+cse") == ["cse"]
    assert _passes("xnnpack:fp32+remove_noop+cse") == ["remove_noop", "cse"]


def test_every_known_pass_is_one() -> None:
    for name, known in GENERAL.items():
        assert pass_name(known.make()).startswith(name), known.where
    for backend in registry.names():
        assert all(
            callable(known.make())
            for known in list_known_passes(registry.backend(backend)).values()
        )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mlx:fp32-cze", "mlx:fp32 runs no pass 'cze' .*did you mean 'cse'"),
        ("xnnpack:fp32-cse", "xnnpack:fp32 runs no pass 'cse' .*Known: none"),
        (
            "xnnpack:fp32+remove_nop",
            "no pass or setting 'remove_nop' to add .*did you mean 'remove_noop'",
        ),
        ("xnnpack:fp33+cse", "no recipe 'fp33'"),
    ],
)
def test_unknown_passes_are_reported(text: str, said: str) -> None:
    with pytest.raises(UnknownTarget, match=said):
        parse_targets([text])


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x) + torch.exp(x)


TWICE = Case("twice", lambda: (Twice(), (torch.randn(4),)), targets="portable:fp32|mlx:fp32")


def test_a_pass_that_is_added_takes_effect() -> None:
    """A case's own targets speak of their variations."""
    plain, merged = (Target.parse(f"portable:fp32{change}") for change in ("", "+cse"))
    assert registry.select_targets(TWICE, [merged]) == [merged]
    cells = [run_cell(TWICE, target) for target in (plain, merged)]
    assert [cell.target for cell in cells] == ["portable:fp32", "portable:fp32+cse"]
    assert [cell.status for cell in cells] == [Status.PASSED] * 2
    assert [cell.delegation.undelegated_ops["aten.exp.default"] for cell in cells] == [2, 1]


def test_a_case_spells_its_own_variations() -> None:
    case = Case("spelled", TWICE.build, targets="portable:fp32+cse|mlx:*")
    found = [str(target) for target in registry.select_targets(case, None)]
    assert "portable:fp32+cse" in found
    assert "portable:fp32" not in found


def test_a_defect_of_the_recipe_may_disappear_without_a_pass() -> None:
    wrong = Limitation("portable:fp32", "twice", "not wrong at all")
    varied, spelled = Target.parse("portable:fp32+cse"), Target.parse("portable:fp32")
    assert find_limitation([wrong], TWICE, varied) is wrong
    assert run_cell(TWICE, varied, limitations=[wrong]).status is Status.PASSED
    assert run_cell(TWICE, spelled, limitations=[wrong]).status is Status.XPASSED
    named = Limitation("portable:fp32+cse", "twice", "not wrong at all")
    assert run_cell(TWICE, varied, limitations=[named]).status is Status.XPASSED
    assert find_limitation([named], TWICE, spelled) is None
