"""What is expected of a model whose weights are quantized before export."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from harness.pipeline.quantization.converted_layers import (
    ConvertedLayers,
    convert_others,
    find_converted,
    measure_typical_error,
)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(64, 32)
        self.first = nn.Linear(32, 32)
        self.last = nn.Conv2d(1, 4, 3)


def make() -> nn.Module:
    torch.manual_seed(0)
    return Net()


def round_linear(model: nn.Module) -> nn.Module:
    """Round the weights of linear layers to 15 codes per row, in place."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            scale = layer.weight.abs().amax(1, keepdim=True) / 7
            layer.weight = nn.Parameter((layer.weight / scale).round() * scale)
    return model


def test_the_layers_that_were_converted_are_found() -> None:
    assert find_converted(make(), make()) == []
    assert find_converted(make(), round_linear(make())) == ["first"]
    other = make()
    other.set_submodule("last", nn.Conv1d(1, 4, 3))
    assert find_converted(make(), other) == ["last"]


@pytest.mark.parametrize("codes", [15, 255])
def test_a_layer_of_normal_weights_errs_as_its_number_of_codes_says(codes: int) -> None:
    def convert(model: nn.Module) -> nn.Module:
        layer = model[0]
        scale = layer.weight.abs().amax(1, keepdim=True) / (codes // 2)
        layer.weight = nn.Parameter((layer.weight / scale).round() * scale)
        return model

    error = measure_typical_error(nn.Linear(256, 32), convert, 0)
    # The largest of 256 normal numbers is about 3 standard deviations from zero.
    assert error == pytest.approx(3 / (codes // 2) / 12**0.5, rel=0.1)


def test_two_layers_of_a_kind_are_expected_3_db_below_one() -> None:
    def expect(model: nn.Module) -> float | None:
        converted = round_linear(copy.deepcopy(model))
        return ConvertedLayers(model, converted, round_linear, 0).expect_sqnr()

    one = expect(nn.Sequential(nn.Linear(32, 32)))
    two = expect(nn.Sequential(nn.Linear(32, 32), nn.Linear(512, 512)))
    assert one is not None
    assert two == pytest.approx(one - 10 * math.log10(2))


def test_a_layer_that_is_not_converted_by_itself_has_no_expectation() -> None:
    def convert(model: nn.Module) -> nn.Module:
        return round_linear(model.first)  # knows its own model only

    assert measure_typical_error(nn.Linear(8, 8), convert, 0) is None
    assert measure_typical_error(nn.Linear(8, 8), nn.Identity(), 0) is None
    assert measure_typical_error(nn.LSTM(8, 8), round_linear, 0) is None


def test_a_module_stays_in_float() -> None:
    converted = convert_others(make(), round_linear, ["first", "unknown"])
    assert find_converted(make(), converted) == []
