"""Normalisations and softmax."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from harness import Case
from suites.build import COARSE, add_vacuous_reasons, nn_case, op, positive, randn, uniform, values
from suites.selection import take_turns


def _scrambled(module: nn.Module) -> nn.Module:
    """Give a module weights and running statistics as after training: the initial values 1 and 0
    would hide errors."""
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if tensor.is_floating_point():
            drawn = torch.randn(tensor.shape)
            positive = name.endswith(("weight", "running_var"))
            tensor.data.copy_(drawn.abs() + 0.3 if positive else drawn)
    return module


class NormBesideReader(nn.Module):
    """A layer whose result is normalized, and read elsewhere as well."""

    def __init__(self, layer: nn.Module, norm: nn.Module) -> None:
        super().__init__()
        self.layer, self.norm = layer, _scrambled(norm)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.layer(x)
        result: torch.Tensor = self.norm(hidden) + hidden.sigmoid()
        return result


class _SharedWeight(nn.Module):
    """Two convolutions with one weight, of which one is normalized."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Conv2d(3, 4, 3), _scrambled(nn.BatchNorm2d(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.norm(self.layer(x)) + self.layer(x + x)
        return result


class _TwoNormsOfOneLayer(nn.Module):
    """A layer that is applied twice, with a normalization of its own behind each, as in the heads
    of detection networks."""

    def __init__(self, layer: nn.Module, norm: type[nn.Module]) -> None:
        super().__init__()
        self.layer, self.first, self.second = layer, _scrambled(norm(4)), _scrambled(norm(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.first(self.layer(x)), self.second(self.layer(torch.relu(x)))


class _BufferOfBias(nn.Module):
    """A convolution whose bias is a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Conv2d(3, 4, 3, bias=False), _scrambled(nn.BatchNorm2d(4))
        self.register_buffer("bias", torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.conv2d(x, self.layer.weight, self.get_buffer("bias"))
        result: torch.Tensor = self.norm(hidden)
        return result


class _GivenWeight(nn.Module):
    """A convolution whose weight is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = _scrambled(nn.BatchNorm2d(4))

    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.norm(F.conv2d(x, weight))
        return result


_STATISTICS = ("running_mean", "running_var")
_VECTORS = (*_STATISTICS, "weight", "bias")


class _Vectors(nn.Module):
    """A normalization behind a layer by four vectors of its own."""

    def __init__(self, layer: nn.Module, buffers: Iterable[str] = _STATISTICS) -> None:
        super().__init__()
        self.layer = layer
        for name in _VECTORS:
            vector = torch.rand(4) + 0.3
            if name in buffers:
                self.register_buffer(name, vector)
            else:
                self.register_parameter(name, nn.Parameter(vector))

    def normalize(self, x: torch.Tensor, **given: torch.Tensor) -> torch.Tensor:
        mean, variance, weight, bias = (given.get(name, getattr(self, name)) for name in _VECTORS)
        return F.batch_norm(self.layer(x), mean, variance, weight, bias, eps=0.5)


class _Frozen(_Vectors):
    """All four vectors are buffers."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__(layer, _VECTORS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.normalize(x)


class _GivenVector(_Vectors):
    """One of the four vectors is an input."""

    def __init__(self, layer: nn.Module, given: str) -> None:
        super().__init__(layer)
        self.given = given

    def forward(self, x: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
        return self.normalize(x, **{self.given: vector})


class _WrittenVector(_Vectors):
    """One of the four vectors is written after it was read. ExecuTorch begins with zeros."""

    def __init__(self, layer: nn.Module, written: str) -> None:
        super().__init__(layer, {*_STATISTICS, written})
        self.written = written
        self.get_buffer(written).zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.normalize(x)
        self.get_buffer(self.written).add_(0.75)
        return result


_LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "conv2d": (lambda: nn.Conv2d(3, 4, 3), (1, 3, 6, 7)),
    "linear": (lambda: nn.Linear(5, 4), (3, 5)),
    "alone": (nn.Identity, (2, 4, 5, 6)),
}


def _given(layer: str, vector: str) -> Case:
    make, shape = _LAYERS[layer]
    return nn_case(
        f"norm_given/{layer}_{vector.removeprefix('running_')}",
        lambda: _GivenVector(make(), vector),
        randn(*shape),
        positive(4),
    )


def _written(layer: str, vector: str) -> Case:
    make, shape = _LAYERS[layer]
    return nn_case(
        f"norm_written/{layer}_{vector.removeprefix('running_')}",
        lambda: _WrittenVector(make(), vector),
        randn(*shape),
        calls=[(randn(*shape),)] * 2,
    )


# Delegates take the vectors of a normalization for constants, and check some of them. A plain run
# leaves out what ends XNNPACK's process.
_WITH_VECTORS = [
    *(_given(layer, vector) for layer in _LAYERS for vector in _VECTORS),
    *(
        replace(_written(layer, vector), plain_targets="tosa:fp|mlx:fp32")
        for layer in _LAYERS
        for vector in ("running_mean", "bias")
    ),
]


def _norm_behind(name: str, layer: Callable[[], nn.Module], norm: nn.Module, *shape: int) -> Case:
    return nn_case(
        f"norm_behind/{name}",
        lambda: nn.Sequential(layer(), _scrambled(copy.deepcopy(norm))),
        randn(*shape),
    )


# XNNPACK and Arm move a normalization into the weights of the layer before it.
_NORM_BEHIND = [
    # A linear layer's features are in the last dimension, a normalization's channels in the second.
    _norm_behind("linear_3d", lambda: nn.Linear(5, 4), nn.BatchNorm1d(4), 2, 4, 5),
    nn_case("norm_behind/conv2d_frozen", lambda: _Frozen(nn.Conv2d(3, 4, 3)),
            randn(1, 3, 6, 7)),
    nn_case("norm_behind/nothing_frozen", lambda: _Frozen(nn.Identity()),
            randn(2, 4, 5, 6)),
    _norm_behind("linear_3d_other_size", lambda: nn.Linear(5, 4), nn.BatchNorm1d(6), 2, 6, 5),
    _norm_behind("conv1d", lambda: nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4), 1, 3, 9),
    _norm_behind("conv2d_no_bias", lambda: nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4),
                 1, 3, 6, 7),
    _norm_behind("conv2d_no_affine", lambda: nn.Conv2d(3, 4, 3),
                 nn.BatchNorm2d(4, eps=0.5, affine=False), 1, 3, 6, 7),
    _norm_behind("conv2d_depthwise", lambda: nn.Conv2d(4, 4, 3, groups=4), nn.BatchNorm2d(4),
                 1, 4, 6, 7),
    _norm_behind("conv2d_and_norm",
                 lambda: nn.Sequential(nn.Conv2d(3, 4, 3), _scrambled(nn.BatchNorm2d(4))),
                 nn.BatchNorm2d(4), 1, 3, 6, 7),
    _norm_behind("conv3d", lambda: nn.Conv3d(2, 3, 2), nn.BatchNorm3d(3), 1, 2, 3, 4, 5),
    _norm_behind("transposed_conv2d", lambda: nn.ConvTranspose2d(3, 4, 3), nn.BatchNorm2d(4),
                 1, 3, 5, 6),
    _norm_behind("transposed_conv2d_groups_no_bias",
                 lambda: nn.ConvTranspose2d(4, 6, 3, groups=2, bias=False),
                 nn.BatchNorm2d(6), 1, 4, 5, 6),
    _norm_behind("transposed_conv2d_depthwise", lambda: nn.ConvTranspose2d(4, 4, 3, groups=4),
                 nn.BatchNorm2d(4), 1, 4, 5, 6),
    _norm_behind("linear_no_bias", lambda: nn.Linear(5, 4, bias=False), nn.BatchNorm1d(4), 3, 5),
    nn_case("norm_behind/conv2d_bias_is_buffer", _BufferOfBias, randn(1, 3, 6, 7)),
    nn_case("norm_behind/conv2d_twice",
            lambda: _TwoNormsOfOneLayer(nn.Conv2d(3, 4, 3), nn.BatchNorm2d), randn(1, 3, 6, 7)),
    nn_case("norm_behind/linear_twice",
            lambda: _TwoNormsOfOneLayer(nn.Linear(5, 4), nn.BatchNorm1d), randn(3, 5)),
    _norm_behind("norm", lambda: _scrambled(nn.BatchNorm2d(4)), nn.BatchNorm2d(4), 1, 4, 5, 6),
    nn_case("norm_behind/conv2d_of_two_that_share", _SharedWeight, randn(1, 3, 6, 7)),
    nn_case("norm_behind/conv2d_weight_is_input", _GivenWeight, randn(1, 3, 6, 7),
            randn(4, 3, 3, 3)),
]  # fmt: skip

CASES: list[Case] = [
    *(replace(case, targets="xnnpack:fp32|tosa:fp") for case in _NORM_BEHIND),
    *(replace(case, targets="xnnpack:fp32|tosa:fp|mlx:fp32") for case in _WITH_VECTORS),
    nn_case("native_layer_norm/last_dim", lambda: _scrambled(nn.LayerNorm(16)), randn(2, 5, 16)),
    nn_case("native_layer_norm/two_dims", lambda: _scrambled(nn.LayerNorm((4, 6))),
            randn(3, 4, 6)),
    nn_case("native_layer_norm/no_affine", lambda: nn.LayerNorm(16, elementwise_affine=False),
            randn(4, 16)),
    nn_case("native_layer_norm/no_bias", lambda: _scrambled(nn.LayerNorm(16, bias=False)),
            randn(4, 16)),
    nn_case("native_layer_norm/large_mean", lambda: _scrambled(nn.LayerNorm(32)),
            uniform(49.0, 51.0, 3, 32)),
    nn_case("native_layer_norm/tiny_variance_large_eps", lambda: nn.LayerNorm(16, eps=0.1),
            uniform(-0.01, 0.01, 3, 16)),
    nn_case("native_layer_norm/transposed_input", lambda: _scrambled(nn.LayerNorm(8)),
            randn(2, 5, 8).transposed()),
    nn_case("native_layer_norm/fp16", lambda: _scrambled(nn.LayerNorm(16)).half(),
            randn(4, 16, dtype=torch.float16)),
    nn_case("native_group_norm/groups", lambda: _scrambled(nn.GroupNorm(3, 6)),
            randn(2, 6, 5, 4)),
    nn_case("native_group_norm/one_group", lambda: _scrambled(nn.GroupNorm(1, 6)), randn(2, 6, 7)),
    nn_case("native_group_norm/per_channel_no_affine", lambda: nn.GroupNorm(4, 4, affine=False),
            randn(2, 4, 3, 5)),
    nn_case("native_group_norm/channels_last", lambda: _scrambled(nn.GroupNorm(2, 6)),
            randn(2, 6, 5, 4).channels_last()),
    nn_case("_native_batch_norm_legit/instance_norm", lambda: nn.InstanceNorm2d(3),
            randn(2, 3, 5, 4)),
    nn_case("_native_batch_norm_legit_no_training/1d", lambda: _scrambled(nn.BatchNorm1d(6)),
            randn(4, 6)),
    nn_case("_native_batch_norm_legit_no_training/1d_sequence",
            lambda: _scrambled(nn.BatchNorm1d(6)), randn(2, 6, 9)),
    nn_case("_native_batch_norm_legit_no_training/2d", lambda: _scrambled(nn.BatchNorm2d(4)),
            randn(2, 4, 5, 3)),
    nn_case("_native_batch_norm_legit_no_training/2d_no_affine",
            lambda: _scrambled(nn.BatchNorm2d(4, affine=False)), randn(2, 4, 5, 3)),
    nn_case("_native_batch_norm_legit_no_training/2d_eps",
            lambda: _scrambled(nn.BatchNorm2d(4, eps=0.5)), randn(1, 4, 5, 3)),
    nn_case("_native_batch_norm_legit_no_training/2d_channels_last",
            lambda: _scrambled(nn.BatchNorm2d(4)), randn(2, 4, 5, 3).channels_last()),
    nn_case("_native_batch_norm_legit_no_training/3d", lambda: _scrambled(nn.BatchNorm3d(3)),
            randn(1, 3, 2, 4, 3)),
    nn_case("_native_batch_norm_legit_no_training/after_convolution",
            lambda: _scrambled(nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU())),
            randn(1, 3, 7, 6)),
    nn_case("_native_batch_norm_legit_no_training/beside_a_reader",
            lambda: NormBesideReader(nn.Linear(5, 4), nn.BatchNorm1d(4)), randn(3, 5)),
    nn_case("rms_norm/weight", lambda: _scrambled(nn.RMSNorm(16, eps=1e-5)), randn(2, 5, 16)),
    nn_case("rms_norm/no_weight_default_eps",
            lambda: nn.RMSNorm(16, elementwise_affine=False), randn(4, 16)),
    op("normalize/l2", F.normalize, randn(3, 8), dim=-1),
    op("_softmax/last_dim", torch.softmax, randn(3, 7), dim=-1),
    op("_softmax/middle_dim", torch.softmax, randn(2, 5, 3), dim=1),
    op("_softmax/first_dim", torch.softmax, randn(6, 3), dim=0),
    op("_softmax/rank4", torch.softmax, randn(2, 3, 4, 5), dim=-1),
    op("_softmax/large_logits", torch.softmax, uniform(-300.0, 300.0, 4, 6), dim=-1),
    op("_softmax/masked_with_minus_inf", torch.softmax,
       values((-torch.inf, 0.5, 1.5, -2.0, 3.0), 3, 5), dim=0),
    op("_softmax/size_one_dim", torch.softmax, randn(4, 1), dim=-1),
    op("_softmax/transposed", torch.softmax, randn(4, 6).transposed(), dim=-1),
    nn_case("_softmax/behind_convolution",
            lambda: torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3, padding=1), torch.nn.Softmax(-1)),
            randn(1, 4, 6, 6)),
    op("_softmax/fp16", torch.softmax, randn(3, 7, dtype=torch.float16), dim=-1),
    op("_log_softmax/last_dim", torch.log_softmax, randn(3, 7), dim=-1),
    op("_log_softmax/middle_dim", torch.log_softmax, randn(2, 5, 3), dim=-2),
    op("_log_softmax/large_logits", torch.log_softmax, uniform(-300.0, 300.0, 4, 6), dim=-1),
    op("logsumexp/dim", torch.logsumexp, randn(3, 7), dim=-1),
    nn_case("weight_norm/linear", lambda: weight_norm(nn.Linear(8, 5)), randn(3, 8)),
    nn_case("weight_norm/vector", lambda: weight_norm(nn.LayerNorm(8)), randn(3, 8)),
]

CASES = add_vacuous_reasons(
    CASES,
    {
        "_log_softmax/large_logits": COARSE,
        "_softmax/large_logits": COARSE,
        "_softmax/size_one_dim": "a softmax of one element is 1",
    },
)

CASES = take_turns(CASES)
