"""Calibration apart from evaluation, modules that stay in float, and where the quality goes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from harness import CaseError, Cell, UsageError, check
from harness.record.cell import Status

QUANTIZED = ["xnnpack:int8", "tosa:int"]


class Net(torch.nn.Module):
    """The grid of ``torch.cat`` suits the large half, and only the small half is used."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.wide = torch.nn.Linear(8, 8)
        self.last = torch.nn.Linear(8, 4)
        with torch.no_grad():
            self.wide.weight.mul_(300.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        small = self.first(x)
        joined = torch.cat([self.wide(x), small], 1)
        return self.last(joined[:, 8:])


def draw(seed: int, size: float = 1.0) -> tuple[torch.Tensor]:
    return (torch.randn(16, 8, generator=torch.Generator().manual_seed(seed)) * size,)


def make() -> torch.nn.Module:
    torch.manual_seed(0)
    return Net()


def run(**options: Any) -> list[Cell]:
    cells = check(make(), options.pop("inputs", draw(0)), QUANTIZED, **options)
    assert [cell.status for cell in cells] == [Status.PASSED] * 2, [cell.error for cell in cells]
    return cells


def test_a_right_graph_of_a_useless_quantization_is_degraded() -> None:
    for cell in run():
        assert cell.quality is not None
        assert cell.is_degraded
        assert cell.quality.sqnr_db < 15 < cell.quality.expected_db


def test_the_tensor_that_spoils_it_is_named_first() -> None:
    for cell in run(quality=True):
        assert cell.quality is not None
        parts = cell.quality.parts
        assert [part.alone_db for part in parts] == sorted(part.alone_db for part in parts)
        spoiled = {"cat", "linear", "slice_1"}  # they share the grid that is too coarse
        assert {part.node for part in parts if part.alone_db < 25} <= spoiled
        assert parts[0].node in spoiled
        assert parts[0].codes <= parts[0].available == 256
        assert "test_quality.py" in next(part.source for part in parts if part.node == "cat")


@pytest.mark.nightly
def test_other_inputs_calibrate() -> None:
    alike = run(calibration=[draw(1), draw(2)])
    wider = run(calibration=[draw(1, 0.2)])
    for same, near, far in zip(run(), alike, wider, strict=True):
        assert same.quality is not None
        assert near.quality is not None
        assert far.quality is not None
        assert not same.quality.clipped
        assert max(far.quality.clipped.values()) > 0.3
        assert far.quality.sqnr_db < near.quality.sqnr_db + 3
        assert max(near.quality.clipped.values(), default=0) < 0.1


def test_calibration_inputs_of_another_shape_are_refused() -> None:
    with pytest.raises(CaseError, match="none of the calibration inputs calibration0"):
        check(make(), draw(0), QUANTIZED, calibration=[(torch.randn(3, 8),)])


def test_modules_stay_in_float() -> None:
    for plain, kept in zip(run(), run(keep_float=["wide", "first"]), strict=True):
        assert plain.quality is not None
        assert kept.quality is not None
        assert kept.quality.roundings < plain.quality.roundings
        assert kept.intermediates[-1].identical


def test_an_unknown_module_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no module 'lost'; it has last"):
        check(make(), draw(0), QUANTIZED, keep_float=["lost"])


def test_a_recipe_that_does_not_quantize_keeps_its_program() -> None:
    (cell,) = check(make(), draw(0), "xnnpack:fp32", keep_float=["last"])
    assert cell.status is Status.PASSED


class Layers(torch.nn.Module):
    """A format of 15 codes suits its first layer; half of the second one's output cancels."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 64, bias=False)
        self.last = torch.nn.Linear(64, 32, bias=False)
        with torch.no_grad():
            self.last.weight[:, ::32] = 20.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.last(self.first(x))
        return out - out.mean(-1, keepdim=True)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("target", ["mlx:int4", "xnnpack:int4"])
def test_weights_quantized_before_export_have_a_quality(target: str) -> None:
    torch.manual_seed(0)
    model, inputs = Layers(), (torch.randn(16, 64),)
    (cell,) = check(model, inputs, target, quality=True, reach_sqnr=15.0)
    assert cell.status is Status.PASSED, cell.error
    assert cell.quality is not None
    assert cell.quality.roundings == 2
    assert cell.is_degraded
    assert cell.quality.sqnr_db < 10 < cell.quality.expected_db
    assert [part.module for part in cell.quality.parts] == ["last", "first"]
    assert cell.quality.keep_float == ["last"]
    (cell,) = check(model, inputs, target, keep_float=["last"])
    assert cell.status is Status.PASSED, cell.error
    assert cell.quality is not None
    assert cell.quality.roundings == 1
    assert not cell.is_degraded
    assert cell.quality.sqnr_db > 15


def test_modules_are_found_that_reach_an_sqnr() -> None:
    for cell in run(reach_sqnr=30.0):
        assert cell.quality is not None
        found = cell.quality
        assert found.reached_db is not None
        assert found.keep_float
        (again,) = check(make(), draw(0), cell.target, keep_float=found.keep_float)
        assert again.quality is not None
        assert again.quality.sqnr_db == pytest.approx(found.reached_db, abs=0.01)


def test_an_sqnr_that_only_a_float_program_reaches() -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
    (cell,) = check(layers, (torch.randn(3, 4),), "xnnpack:int8", reach_sqnr=90.0)
    assert cell.status is Status.PASSED, cell.error
    assert cell.quality is not None
    assert (sorted(cell.quality.keep_float), cell.quality.reached_db) == (["0", "1"], math.inf)


def test_what_all_modules_do_not_reach_is_said() -> None:
    (cell,) = check(make(), draw(0), "tosa:int", reach_sqnr=200.0)
    assert cell.quality is not None
    assert cell.quality.wanted_db == 200.0
    assert (cell.quality.reached_db or 0.0) < 200.0
