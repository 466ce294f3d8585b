"""MXFP8 on Arm and on MLX: the weights are equal bit for bit, or differ for a known reason."""

from __future__ import annotations

import base64
import dataclasses
from functools import cache

import numpy
import pytest
import torch

from backends.tosa.mxfp import FORMATS
from backends.tosa.recipes import make_mxfp_recipe
from harness import CROSS_BACKEND, Case, Cell, run_cell
from harness.backend_api import Recipe
from suites.mxfp.shared import CASES

pytestmark = pytest.mark.filterwarnings("ignore:This API is experimental")

BY_NAME = {case.name.partition("/")[2]: case for case in CASES}
SAME = ["exact", "same_scales", "same_scales_exact_activations"]
APART = ["scales_one_apart", "as_drawn", "outlier", "zero_block", "uneven_blocks", "mlp"]


def floored(module: torch.nn.Module) -> torch.nn.Module:
    """The conversion with the scales of MLX's, which upstream's configuration allows."""
    from executorch.backends.arm.ao_ext import MXFPOpConfig, to_mxfp
    from torchao.prototype.mx_formats.config import ScaleCalculationMode

    holder = torch.nn.Sequential(module)
    to_mxfp(holder, MXFPOpConfig(weight_scaling_mode=ScaleCalculationMode.FLOOR))
    replaced: torch.nn.Module = holder[0]
    return replaced


@cache
def arm(name: str, floor: bool = False) -> Cell:
    recipe: Recipe = make_mxfp_recipe(FORMATS["mxfp8_e4m3"])
    if floor:
        recipe = dataclasses.replace(recipe, quantize_weights=floored)
    return run_cell(BY_NAME[name], "tosa:mxfp8_e4m3", recipe=recipe)


@cache
def mlx(name: str) -> Cell:
    return run_cell(BY_NAME[name], "mlx:mxfp8")


def weights(cell: Cell) -> dict[str, tuple[numpy.ndarray, numpy.ndarray]]:
    """Codes (block, 32) and exponents (block,) of each weight."""
    made = {}
    for one in cell.encodings:
        assert one.codes is not None
        assert one.scales is not None
        codes, scales = (
            numpy.frombuffer(base64.b64decode(part), numpy.uint8)
            for part in (one.codes, one.scales)
        )
        made[one.parameter] = (codes.reshape(-1, 32), scales.astype(int))
    return made


def test_the_cases_are_all_spoken_of() -> None:
    assert sorted(BY_NAME) == sorted([*SAME, *APART])


@pytest.mark.parametrize("name", [*SAME, *APART])
@pytest.mark.one_of(20)
def test_both_backends_run_the_case(name: str) -> None:
    for cell in (arm(name), mlx(name)):
        assert cell.status.value == "passed", cell.error
        assert cell.encodings
        assert cell.outputs
    assert {one.parameter for one in arm(name).encodings} == set(weights(mlx(name)))


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", SAME)
def test_weights_are_bit_for_bit_equal(name: str) -> None:
    assert arm(name).encodings == mlx(name).encodings


@pytest.mark.parametrize("name", ["exact", "same_scales_exact_activations"])
def test_outputs_agree_where_nothing_is_lost(name: str) -> None:
    ours, theirs = (numpy.array(cell.outputs[0].values) for cell in (arm(name), mlx(name)))
    numpy.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6 * abs(theirs).max())


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", APART)
def test_weights_differ_by_the_rounding_of_scales_alone(name: str) -> None:
    """Arm rounds the exponent of a block's scale up, MLX's conversion down."""
    largest_of = {
        parameter: tensor.reshape(-1, 32).abs().amax(1)
        for parameter, tensor in BY_NAME[name].make().module.named_parameters()
        if tensor.ndim == 2
    }
    ours, theirs = weights(arm(name)), weights(mlx(name))
    apart = 0
    for parameter, largest in largest_of.items():
        significand, _ = numpy.frexp(largest.numpy())
        # E4M3 ends at 448 = 1.75 · 2⁸; frexp's significand is half of the usual one.
        expected = (significand > 0.875).astype(int)
        codes, scales = ours[parameter]
        other_codes, other_scales = theirs[parameter]
        numpy.testing.assert_array_equal(scales - other_scales, expected)
        numpy.testing.assert_array_equal(codes[expected == 0], other_codes[expected == 0])
        apart += expected.sum()
    assert apart


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", ["scales_one_apart", "as_drawn", "uneven_blocks"])
def test_with_one_rule_for_scales_the_weights_are_equal(name: str) -> None:
    assert arm(name, floor=True).encodings == mlx(name).encodings


def test_other_cases_record_hashes_only() -> None:
    case = Case("plain", lambda: (torch.nn.Linear(32, 16), (torch.randn(2, 32),)))
    cell = run_cell(case, "tosa:mxfp8_e4m3")
    assert CROSS_BACKEND not in cell.tags
    assert cell.outputs == []
    assert [(one.codes, one.scales) for one in cell.encodings] == [(None, None)]
    assert all(len(one.codes_sha256) == 64 for one in cell.encodings)
    assert Cell.from_json(cell.to_json()) == cell
