"""Programs that decide conditions of XNNPACK's partitioner, passes and quantizer, one each.

``conform coverage show --area xnnpack`` lists conditions that no cell decides both ways.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import (
    BatchNorm2d,
    BatchNorm3d,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    Linear,
    Module,
    PReLU,
    ReLU,
    Sequential,
)

from harness import Case
from suites.build import Input, ints, nn_case, op, positive, randn


class _Around(Module):
    """A layer, and a function that calls it."""

    def __init__(self, layer: Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, *inputs: Tensor) -> Any:
        return self.call(self.layer, *inputs)


class _Learned(Module):
    """A convolution of a parameter, added to one of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.image = torch.nn.Parameter(torch.randn(1, 3, 5, 6))
        self.layer = Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(self.image) + self.layer(x)
        return result


def _around(name: str, layer: Callable[[], Module], call: Callable[..., Any], *x: Input) -> Case:
    return nn_case(name, lambda: _Around(layer(), call), *x)


def _conv() -> Conv2d:
    return Conv2d(3, 4, 3, padding=1)


_IMAGE = randn(1, 3, 5, 6)
_PAIR = (randn(3, 4), randn(3, 4))

_LAYERS = [
    nn_case("prelu/layer_a_channel", lambda: PReLU(3, 0.3), _IMAGE),
    nn_case("prelu/layer_one_weight", lambda: PReLU(init=0.3), _IMAGE),
    nn_case("prelu/behind_convolution", lambda: Sequential(_conv(), PReLU(4, 0.3)), _IMAGE),
    nn_case("norm_alone/not_affine", lambda: BatchNorm2d(3, affine=False).eval(), _IMAGE),
    nn_case("norm_alone/behind_relu", lambda: Sequential(ReLU(), BatchNorm2d(3)).eval(), _IMAGE),
    nn_case("norm_alone/3d", lambda: BatchNorm3d(2).eval(), randn(1, 2, 3, 4, 5)),
    nn_case("norm_behind/not_affine",
            lambda: Sequential(_conv(), BatchNorm2d(4, affine=False)).eval(), _IMAGE),
    _around("norm_alone/all_results", lambda: BatchNorm2d(3).eval(),
            lambda n, x: torch.ops.aten._native_batch_norm_legit_no_training(
                x, n.weight, n.bias, n.running_mean, n.running_var, 0.1, 1e-5)[:2], _IMAGE),
    nn_case("convolution/of_parameter", _Learned, _IMAGE),
    _around("convolution/lists_of_one", _conv,
            lambda c, x: torch.ops.aten.convolution(
                x, c.weight, c.bias, [2], [1], [1], False, [0], 1), _IMAGE),
    _around("convolution/lists_of_one_transposed", lambda: ConvTranspose2d(3, 4, 3),
            lambda c, x: torch.ops.aten.convolution(
                x, c.weight, c.bias, [2], [1], [1], True, [1], 1), _IMAGE),
]  # fmt: skip

# Results of a convolution are channels-last inside of the delegate.
_LAYOUTS = [
    _around("behind_convolution/view_of_4d", _conv, lambda c, x: c(x).reshape(1, 2, 10, 6) * 2.0,
            _IMAGE),
    _around("behind_convolution/two_views", _conv,
            lambda c, x: ((y := c(x)).reshape(4, 30) * 2.0, y.reshape(1, 2, 60) - 1.0), _IMAGE),
    _around("behind_convolution/view_and_sum", _conv,
            lambda c, x: ((y := c(x)).reshape(4, 30) * 2.0, y + y), _IMAGE),
    _around("behind_convolution/sum_with_softmax", _conv,
            lambda c, x: c(x) + torch.softmax(x, -1).sum(1, keepdim=True), _IMAGE),
    _around("behind_convolution/sum_with_view", _conv,
            lambda c, x: c(x) * x.view(1, 3, 30)[:, 0].view(1, 1, 5, 6), _IMAGE),
    _around("behind_convolution/cat_with_input", _conv, lambda c, x: torch.cat([c(x), x], 1) * 2.0,
            _IMAGE),
    _around("behind_convolution/cat_of_two", _conv,
            lambda c, x: torch.cat([y := c(x), y * 2.0], 2), _IMAGE),
    _around("behind_convolution/slice", _conv, lambda c, x: c(x)[:, 1:3] * 2.0, _IMAGE),
    _around("behind_convolution/permuted", _conv, lambda c, x: c(x).permute(0, 2, 3, 1) * 2.0,
            _IMAGE),
    _around("behind_convolution/padded", _conv, lambda c, x: F.pad(c(x), (1, 2, 0, 1)), _IMAGE),
    _around("behind_convolution/mean_of_channels", _conv, lambda c, x: c(x).mean(1), _IMAGE),
    _around("behind_convolution/maximum_of_rows", _conv,
            lambda c, x: c(x).max(2, keepdim=True)[0], _IMAGE),
    _around("behind_convolution/resized", _conv,
            lambda c, x: F.interpolate(c(x), scale_factor=2, mode="bilinear"), _IMAGE),
    _around("behind_convolution/unsqueezed", _conv, lambda c, x: c(x).unsqueeze(-1) * 2.0, _IMAGE),
]  # fmt: skip

_OTHERS = [
    op("_native_batch_norm_legit_no_training/all_results",
       lambda x, m, v: torch.ops.aten._native_batch_norm_legit_no_training(
           x, None, None, m, v, 0.1, 1e-5), _IMAGE, randn(3), positive(3)),
    op("gelu/half", lambda x: F.gelu(x.half()).float(), randn(3, 5)),
    op("cat_of_four/dim1", lambda x: torch.cat(x.exp().unbind(0), 1), randn(4, 2, 3, 4)),
    op("mean/wider_result", lambda x: x.mean((2, 3), keepdim=True, dtype=torch.float64).float(),
       _IMAGE),
    op("mean/no_innermost_dims", lambda x: x.mean((1, 2), keepdim=True) * 2.0, _IMAGE),
    op("mean/all_dims_none", lambda x: x.mean(None, keepdim=True) * 2.0, _IMAGE),
    op("max/values_and_positions", lambda x: tuple(x.max(2, keepdim=True)), _IMAGE),
    op("max/values_of_integers", lambda x: x.max(2, keepdim=True)[0] + 1,
       ints(-9, 9, 1, 3, 5, 6, dtype=torch.int32)),
    op("expand_copy/same_shape", lambda x: (x * 2.0).expand(3, 4) - 1.0, randn(3, 4)),
    op("expand_copy/minus_one", lambda x: (x * 2.0).expand(-1, 4) - 1.0, randn(3, 1)),
]  # fmt: skip

# Each annotator of the quantizer asks for float operands, a single reader, and a small number.
_SUM_OR_PRODUCT = {"add": torch.add, "mul": torch.mul}
_QUANTIZED = [
    case
    for name, function in _SUM_OR_PRODUCT.items()
    for case in (
        op(f"int_{name}_relu/two", lambda a, b, f=function: torch.relu(f(a, b)), *_PAIR),
        op(f"int_{name}_relu/read_twice",
           lambda a, b, f=function: (lambda y: torch.relu(y) * y)(f(a, b)), *_PAIR),
        op(f"int_{name}_relu/itself", lambda a, b, f=function: torch.relu(f(a, a)) + b, *_PAIR),
        op(f"int_{name}_relu/in_place",
           lambda a, b, f=function: torch.relu_(f(a, b)) - b, *_PAIR),
        op(f"int_{name}_relu/integers", lambda a, i, f=function: (torch.relu(f(i, i)), a + a),
           randn(3, 4), ints(-9, 9, 3, 4, dtype=torch.int32)),
        op(f"int_{name}_relu/half", lambda a, f=function: torch.relu(f(a.half(), a.half())).float(),
           randn(3, 4)),
        op(f"int_{name}_relu/number", lambda a, f=function: torch.relu(f(a, 0.75)), randn(3, 4)),
    )
]  # fmt: skip
_QUANTIZED += [
    nn_case("int_conv_transpose2d/relu", lambda: Sequential(ConvTranspose2d(3, 4, 3), ReLU()),
            _IMAGE),
    nn_case("int_conv_transpose2d/relu_stride",
            lambda: Sequential(ConvTranspose2d(3, 4, 2, stride=2), ReLU()), _IMAGE),
    nn_case("int_conv1d/relu_of_a_layer", lambda: Sequential(Conv1d(3, 4, 3), ReLU()),
            randn(1, 3, 8)),
    _around("int_conv2d/relu_and_reader", _conv, lambda c, x: (y := c(x)) + torch.relu(y), _IMAGE),
    _around("int_linear/relu_and_reader", lambda: Linear(4, 4),
            lambda c, x: (y := c(x)) + torch.relu(y), randn(3, 4)),
    _around("int_adaptive_pool/behind_relu", _conv,
            lambda c, x: F.adaptive_avg_pool2d(torch.relu(c(x)), 1), _IMAGE),
    op("int_adaptive_pool/of_input", lambda x: F.adaptive_avg_pool2d(x, 1) * 2.0, _IMAGE),
    op("int_cat/of_views", lambda x, y: torch.cat([(x + y).view(12), x.view(12) * 9.0]), *_PAIR),
    op("int_cat/of_inputs", lambda x, y: torch.cat([x, y.view(3, 4)], 1), *_PAIR),
]  # fmt: skip

_RECIPES = {
    "xnnpack:int8_dynamic": nn_case(
        "int_conv2d/depthwise_of_layer", lambda: Conv2d(4, 4, 3, groups=4), randn(1, 4, 6, 5)
    ),
    "xnnpack:int8+qat": nn_case(
        "int_conv_transpose2d/norm",
        lambda: Sequential(ConvTranspose2d(3, 4, 3), BatchNorm2d(4)).eval(),
        _IMAGE,
    ),
}

CASES: list[Case] = [
    *(
        # Quantization-aware training searches for 40 patterns, which takes 15 s.
        replace(case, targets=target, tags=case.tags | {"int", "conditions"},
                plain_targets="xnnpack:int8_dynamic")
        for target, case in _RECIPES.items()
    ),
    *(
        replace(case, targets="xnnpack:fp32", tags=case.tags | {"conditions"})
        for case in (*_LAYERS, *_LAYOUTS, *_OTHERS)
    ),
    *(
        replace(case, targets="xnnpack:int8", tags=case.tags | {"int", "conditions"},
                plain_targets="xnnpack:int8")
        for case in _QUANTIZED
    ),
    *(
        replace(case, name=f"int_{case.name}", targets="xnnpack:int8",
                tags=case.tags | {"int", "conditions"}, plain_targets="")
        for case in _LAYOUTS
    ),
]  # fmt: skip
