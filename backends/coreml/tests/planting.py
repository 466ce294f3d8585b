"""Faults in real payloads: changes of the model's message and of the weight file."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from backends.coreml.payload.tests.payloads import WEIGHTS, block_of, constant_of, operation_of
from harness import Case

Edit = Callable[[Any, dict[str, bytes]], None]


class Net(torch.nn.Module):
    """Convolution, pooling, norm, attention-like products and a reduction."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = torch.nn.LayerNorm(16)
        self.linear = torch.nn.Linear(16, 24)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.nn.functional.leaky_relu(self.conv(x), 0.1)
        x = torch.nn.functional.max_pool2d(x, 2, 2).flatten(2)
        x = self.linear(self.norm(x))
        return (torch.softmax(x, -1) - y).transpose(1, 2).mean(1), torch.cat([y, x], 1)


class Total(torch.nn.Module):
    """A running sum."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3, 5, dtype=torch.float16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 2


def _quantized() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16))


NET = Case("planted/net", lambda: (Net(), (torch.randn(2, 3, 16, 16), torch.randn(2, 8, 24))))
WEIGHTS_ONLY = Case("planted/weights", lambda: (_quantized(), (torch.randn(4, 64),)))
QUANTIZED = Case("planted/quantized", lambda: (_quantized(), (torch.randn(16, 64),)))
STATE = Case("planted/state", lambda: (Total(), (torch.randn(3, 5, dtype=torch.float16),)))


@dataclass(frozen=True)
class PlantedFault:
    """A change of a payload.

    Attributes:
        name: what is wrong.
        case: the case whose payload is changed.
        recipe: the recipe that it is lowered with.
        edit: changes the message and the files.
    """

    name: str
    case: Case
    recipe: str
    edit: Edit

    def __str__(self) -> str:
        return self.name


def _immediate(kind: str, key: str, change: Callable[[Any], object]) -> Edit:
    """Change the elements of a constant that stands in the message."""

    def edit(message: Any, files: dict[str, bytes]) -> None:
        tensor = constant_of(message, operation_of(message, kind), key).immediateValue.tensor
        change(getattr(tensor, tensor.WhichOneof("value")).values)

    return edit


def _set(at: int, value: Any) -> Callable[[Any], object]:
    return lambda values: values.__setitem__(at, value)


def _message(change: Callable[[Any], object]) -> Edit:
    return lambda message, files: (change(message), None)[1]


def _swap(kind: str, first: str, second: str) -> Edit:
    def edit(message: Any, files: dict[str, bytes]) -> None:
        inputs = operation_of(message, kind).inputs
        a, b = inputs[first].arguments[0].name, inputs[second].arguments[0].name
        inputs[first].arguments[0].name, inputs[second].arguments[0].name = b, a

    return edit


def _blob(kind: str, key: str, change: Callable[[bytearray], object]) -> Edit:
    """Change the bytes of a constant in the weight file."""

    def edit(message: Any, files: dict[str, bytes]) -> None:
        value = constant_of(message, operation_of(message, kind), key).blobFileValue
        data = bytearray(files[WEIGHTS])
        _, _, size, begin = struct.unpack_from("<IIQQ", data, value.offset)
        part = data[begin : begin + size]
        change(part)
        data[begin : begin + size] = part
        files[WEIGHTS] = bytes(data)

    return edit


def _scale(at: int | slice, factor: float) -> Callable[[bytearray], object]:
    def change(data: bytearray) -> None:
        values = numpy.frombuffer(data, numpy.float32)
        values[at] *= factor

    return change


def _zero(data: bytearray) -> None:
    data[:] = bytes(len(data))


def _flip_nibble(data: bytearray) -> None:
    data[3] ^= 0x40


def _skip_write(message: Any) -> None:
    operations = block_of(message).operations
    at = next(at for at, each in enumerate(operations) if each.type == "write_state")
    del operations[at]


def _bypass(kind: str) -> Edit:
    """Let the readers of an operation read its input."""

    def edit(message: Any, files: dict[str, bytes]) -> None:
        operation = operation_of(message, kind)
        operation.type = "identity"
        (kept,) = [key for key in operation.inputs if key == "x"]
        for key in [each for each in operation.inputs if each != kept]:
            del operation.inputs[key]

    return edit


def _rename(kind: str, other: str) -> Edit:
    return _message(lambda message: setattr(operation_of(message, kind), "type", other))


FAULTS = (
    PlantedFault("one weight of a convolution", NET, "fp32",
                 _blob("conv", "weight", _scale(5, 1.01))),
    PlantedFault("one weight of a linear layer", NET, "fp32",
                 _blob("linear", "weight", _scale(7, 1.01))),
    PlantedFault("a dropped bias", NET, "fp32", _blob("linear", "bias", _zero)),
    PlantedFault("the padding of a convolution", NET, "fp32",
                 _immediate("conv", "pad", lambda v: (_set(0, 0)(v), _set(1, 2)(v)))),
    PlantedFault("the axis of a softmax", NET, "fp32", _immediate("softmax", "axis", _set(0, 1))),
    PlantedFault("the kernel size of a pool", NET, "fp32",
                 _immediate("max_pool", "kernel_sizes", _set(0, 1))),
    PlantedFault("the epsilon of a norm", NET, "fp32",
                 _immediate("layer_norm", "epsilon", _set(0, 1e-3))),
    PlantedFault("the slope of a leaky relu", NET, "fp32",
                 _immediate("leaky_relu", "alpha", _set(0, 0.101))),
    PlantedFault("swapped operands of a subtraction", NET, "fp32", _swap("sub", "x", "y")),
    PlantedFault("a dropped bias beside 4-bit weights", WEIGHTS_ONLY, "int4",
                 _blob("linear", "bias", _zero)),
    PlantedFault("an average for a maximum", NET, "fp32", _rename("max_pool", "avg_pool")),
    PlantedFault("a missing activation", NET, "fp32", _bypass("leaky_relu")),
    PlantedFault("one 4-bit code", WEIGHTS_ONLY, "int4",
                 _blob("constexpr_blockwise_shift_scale", "data", _flip_nibble)),
    PlantedFault("one scale of 4-bit codes", WEIGHTS_ONLY, "int4",
                 _blob("constexpr_blockwise_shift_scale", "scale", _scale(3, 1.01))),
    PlantedFault("one 8-bit code", WEIGHTS_ONLY, "int8_weights",
                 _blob("constexpr_blockwise_shift_scale", "data", _flip_nibble)),
    PlantedFault("one entry of a palette", WEIGHTS_ONLY, "lut4",
                 _blob("constexpr_lut_to_dense", "lut", _scale(3, 1.02))),
    PlantedFault("one index into a palette", WEIGHTS_ONLY, "lut4",
                 _blob("constexpr_lut_to_dense", "indices", _flip_nibble)),
    PlantedFault("the scale of an 8-bit activation", QUANTIZED, "int8",
                 _immediate("dequantize", "scale", lambda v: _set(0, v[0] * 1.1)(v))),
    PlantedFault("all scales of a layer's 8-bit codes", QUANTIZED, "int8",
                 _blob("constexpr_blockwise_shift_scale", "scale", _scale(slice(None), 1.1))),
    PlantedFault("a state that is not written", STATE, "fp16", _message(_skip_write)),
)  # fmt: skip
