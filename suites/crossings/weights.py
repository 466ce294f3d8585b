"""Layers whose weight or bias is no plain parameter: a view, a computed tensor, an input, a state.

Models merge low-rank updates, normalize weights, pick the weights of an expert, or slice one
parameter for several layers. Delegates expect a constant there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness import Case
from suites.crossings.build import Row, cross

_Shape = tuple[int, ...]


class _Layer(NamedTuple):
    """A function of (input, weight, bias), and the shapes of these."""

    apply: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    inputs: _Shape
    weight: _Shape
    bias: _Shape


def _plus(y: Tensor, bias: Tensor | None) -> Tensor:
    return y if bias is None else y + bias


def _batch_norm(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    mean, variance = torch.tensor([0.3, -0.2, 0.1, 0.5]), torch.tensor([0.5, 1.5, 1.0, 2.0])
    return F.batch_norm(x, mean, variance, weight, bias)


LAYERS = {
    "linear": _Layer(F.linear, (3, 8), (6, 8), (6,)),
    "matmul": _Layer(lambda x, w, b: _plus(x @ w, b), (3, 8), (8, 6), (6,)),
    "bmm": _Layer(lambda x, w, b: _plus(torch.bmm(x, w), b), (2, 3, 8), (2, 8, 6), (6,)),
    "conv1d": _Layer(F.conv1d, (2, 4, 9), (6, 4, 3), (6,)),
    "conv2d": _Layer(F.conv2d, (2, 4, 7, 8), (6, 4, 3, 3), (6,)),
    "depthwise": _Layer(
        lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=4), (2, 4, 7, 8), (4, 1, 3, 3), (4,)
    ),
    "deconv": _Layer(F.conv_transpose2d, (2, 4, 5, 6), (4, 6, 3, 3), (6,)),
    "embedding": _Layer(lambda x, w, b: _plus(F.embedding(x.long(), w), b), (3, 5), (8, 6), (6,)),
    "layernorm": _Layer(lambda x, w, b: F.layer_norm(x, (8,), w, b), (3, 8), (8,), (8,)),
    "groupnorm": _Layer(lambda x, w, b: F.group_norm(x, 2, w, b), (2, 4, 5), (4,), (4,)),
    "batchnorm": _Layer(_batch_norm, (2, 4, 5, 6), (4,), (4,)),
    "rmsnorm": _Layer(lambda x, w, b: _plus(F.rms_norm(x, (8,), w, 1e-5), b), (3, 8), (8,), (8,)),
    "prelu": _Layer(lambda x, w, b: _plus(F.prelu(x, w), b), (2, 3, 4, 4), (3,), (4,)),
}


class _Origin(NamedTuple):
    """What a module stores for a tensor of a shape, and how it makes the tensor from that."""

    stores: Callable[[_Shape], list[_Shape]]
    make: Callable[..., Tensor]


def _scales(shape: _Shape) -> _Shape:
    return (shape[0], *(1 for _ in shape[1:]))


ORIGINS = {
    "parameter": _Origin(lambda shape: [shape], lambda w: w),
    "swapped": _Origin(lambda shape: [shape[::-1]], lambda w: w.permute(*range(w.dim())[::-1])),
    "sliced": _Origin(lambda shape: [(shape[0] + 3, *shape[1:])], lambda w: w[1:-2]),
    "stepped": _Origin(lambda shape: [(2 * shape[0], *shape[1:])], lambda w: w[::2]),
    "joined": _Origin(
        lambda shape: [(1, *shape[1:]), (shape[0] - 1, *shape[1:])],
        lambda first, rest: torch.cat([first, rest]),
    ),
    "expanded": _Origin(
        lambda shape: [(1, *shape[1:]), shape],
        lambda row, like: row.expand_as(like),
    ),
    "scaled": _Origin(lambda shape: [shape, _scales(shape)], lambda w, scale: w * scale),
    "normalized": _Origin(
        lambda shape: [_scales(shape), shape],
        # What torch.nn.utils.parametrizations.weight_norm calls.
        lambda scale, w: torch.ops.aten._weight_norm(w, scale, 0),
    ),
    "merged": _Origin(
        lambda shape: [shape, (shape[0], 2), (2, torch.Size(shape[1:]).numel())],
        lambda w, up, down: w + (up @ down).reshape(w.shape),
    ),
    "dropped": _Origin(lambda shape: [shape], lambda w: F.dropout(w, 0.5, training=False)),
    "half": _Origin(lambda shape: [shape], lambda w: w.float()),
    "reread": _Origin(lambda shape: [shape], lambda w: w),
    "written": _Origin(lambda shape: [shape, shape], lambda state, w: state.add_(w)),
    "picked": _Origin(lambda shape: [(3, *shape)], lambda w, which: w[which].squeeze(0)),
    "input": _Origin(lambda shape: [], lambda w: w),
}
"""By name: permuted, a slice, every other row, concatenated, one row for all, scaled by row,
normalized by row, with a low-rank update, behind dropout, stored in float16, read a second time by
the program, written by each call, chosen by an input, an input."""

FACTORS = {
    "layer": tuple(LAYERS),
    "weight": tuple(ORIGINS),
    "bias": ("nobias", "parameter", "sliced", "scaled", "input", "reread"),
    "then": ("alone", "relu", "twice"),
}


def allows(row: Row) -> bool:
    """Whether the weight has the dimensions for its origin.

    PyTorch decomposes the normalization of a vector wrongly (weight_norm/vector).
    """
    return row.get("weight") not in ("swapped", "normalized") or (
        len(LAYERS[row["layer"]].weight) > 1
    )


class Weighted(nn.Module):
    """A layer whose weight and bias have the origins of a row."""

    def __init__(self, row: Row) -> None:
        super().__init__()
        self.row = row
        self.layer = LAYERS[row["layer"]]
        for role, shape in (("weight", self.layer.weight), ("bias", self.layer.bias)):
            if row[role] == "nobias":
                continue
            for place, each in enumerate(ORIGINS[row[role]].stores(shape)):
                drawn = torch.randn(each) / 2
                if row[role] == "written" and not place:
                    # Programs begin with zeros in a buffer that they write (state/from_one).
                    self.register_buffer(f"{role}{place}", torch.zeros(each))
                else:
                    drawn = drawn.half() if row[role] == "half" else drawn
                    setattr(self, f"{role}{place}", nn.Parameter(drawn))

    def draw(self) -> tuple[Tensor, list[Tensor]]:
        """Return an input, and the weights that are inputs."""
        x = torch.randn(self.layer.inputs)
        if self.row["layer"] == "embedding":
            x = torch.randint(self.layer.weight[0], self.layer.inputs).int()
        given = []
        if self.row["weight"] == "picked":
            given.append(torch.tensor([1]))
        if self.row["weight"] == "input":
            given.append(torch.randn(self.layer.weight))
        if self.row["bias"] == "input":
            given.append(torch.randn(self.layer.bias))
        return x, given

    def make_tensor(self, role: str, given: list[Tensor]) -> Tensor | None:
        """Return the weight or the bias; None without bias."""
        origin = self.row[role]
        if origin == "nobias":
            return None
        stored = [each for name, each in self.named_buffers() if name.startswith(role)]
        stored += [each for name, each in self.named_parameters() if name.startswith(role)]
        return ORIGINS[origin].make(*stored, *given)

    def forward(self, x: Tensor, given: list[Tensor]) -> Tensor | tuple[Tensor, ...]:
        """Return the result, and the tensors that the program reads a second time."""
        split = 1 if self.row["weight"] in ("picked", "input") else 0
        weight = self.make_tensor("weight", given[:split])
        bias = self.make_tensor("bias", given[split:])
        assert weight is not None
        y = self.layer.apply(x, weight, bias)
        if self.row["then"] == "relu":
            y = y.relu()
        elif self.row["then"] == "twice":
            y = y + self.layer.apply(x, weight, None)
        second = {"weight": weight, "bias": bias}
        read = [second[role] for role in second if self.row[role] == "reread"]
        return (y, *(2 * each for each in read if each is not None)) if read else y


def _make_case(name: str, row: Row) -> Case:
    def build() -> tuple[nn.Module, tuple[Tensor, list[Tensor]]]:
        module = Weighted(row).eval()
        return module, module.draw()

    # On xnnpack:int8 some end the process (docs/findings/runtime_quantize_per_channel.py), and
    # starting another takes long.
    computed = row["weight"] in ("input", "picked", "dropped")
    return Case(name, build, plain_targets="[!x]*|xnnpack:fp32" if computed else "*")


CASES: list[Case] = cross("weight", FACTORS, allows, _make_case)
