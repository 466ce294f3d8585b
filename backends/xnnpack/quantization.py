"""XNNPACK's PT2E quantizer."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from harness.backend_api import is_in_module, require_annotations

if TYPE_CHECKING:
    import torch

_DEQUANTIZE = "quantized_decomposed.dequantize"
_LAYERS = frozenset(
    f"aten.{name}"
    for name in ("linear.default", "conv1d.default", "conv2d.default", "conv_transpose2d.input")
)
_ACTIVATIONS = frozenset(
    f"aten.{name}.default" for name in ("relu", "relu_", "hardtanh", "hardtanh_", "relu6", "clamp")
)


def make_quantizer(*, per_channel: bool, dynamic: bool) -> Any:
    """Make a quantizer for asymmetric int8 activations and symmetric int8 weights.

    Args:
        per_channel: one scale for each output channel of a weight, else one for the weight.
        dynamic: choose activation scales at run time, for linear layers and convolutions only.

    The quantizer's ``validate`` raises UnsupportedProgram when there is nothing to quantize.
    """
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    config = get_symmetric_quantization_config(is_per_channel=per_channel, is_dynamic=dynamic)
    quantizer = XNNPACKQuantizer().set_global(config)
    quantizer.validate = functools.partial(require_annotations, "XNNPACK's quantizer")
    return quantizer


def keep_float(quantizer: Any, names: Sequence[str]) -> Any:
    """Leave modules in float: ``set_module_name`` of XNNPACK's quantizer refuses None.

    Args:
        quantizer: of :func:`make_quantizer`.
        names: names of modules; those inside of them stay in float, too.
    """
    earlier = quantizer.filter_fn

    def is_quantized(node: torch.fx.Node) -> bool:
        return not is_in_module(node, names) and (earlier is None or earlier(node))

    return quantizer.set_filter_function(is_quantized)


def store_biases(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return the quantized graph with the biases that the delegate stores.

    A kernel adds the bias to a sum of products of codes, so that its unit is the product of the
    scales of input and weight (``QuantParams.from_bias`` in operators/quant_params.py). Where the
    input has large outliers, that unit is many steps of the output.

    Args:
        graph: of ``convert_pt2e``; not changed. The result shares its other tensors.
    """
    import torch

    stored = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    for node in list(stored.graph.nodes):
        scale = _find_scale_of_sum(stored, node)
        if scale is None:
            continue
        arguments: Any = node.args
        bias: torch.Tensor = attrgetter(arguments[2].target)(stored)
        codes = (bias.detach().double() / scale).round().clamp(-(2**31), 2**31 - 1)
        name = f"{node.name}_stored_bias"
        stored.register_buffer(name, (codes * scale).to(bias.dtype))
        with stored.graph.inserting_before(node):
            node.update_arg(2, stored.graph.get_attr(name))
    stored.graph.lint()
    stored.recompile()
    return stored


def _find_scale_of_sum(graph: torch.fx.GraphModule, node: torch.fx.Node) -> torch.Tensor | None:
    """Return the unit of the sum of a quantized layer with a constant bias, else None.

    Returns:
        float64, one number or one for each channel of the output.
    """
    import torch

    if node.op != "call_function" or str(node.target) not in _LAYERS or len(node.args) < 3:
        return None
    arguments: Any = node.args  # of one of the layers above
    source, weight, bias = arguments[:3]
    if not all(isinstance(each, torch.fx.Node) for each in (source, weight, bias)):
        return None
    if bias.op != "get_attr" or str(source.target) != f"{_DEQUANTIZE}_per_tensor.default":
        return None
    if not any(_is_quantized(user) for user in node.users):
        return None  # the delegate computes it in float
    if str(weight.target) == f"{_DEQUANTIZE}_per_tensor.default":
        return torch.tensor(float(source.args[1] * weight.args[1]), dtype=torch.float64)
    if str(weight.target) == f"{_DEQUANTIZE}_per_channel.default":
        output_axis = 1 if "transpose" in str(node.target) else 0
        if weight.args[3] != output_axis:
            return None  # by channels of the input: the delegate refuses the layer
        scales: torch.Tensor = attrgetter(weight.args[1].target)(graph)
        return scales.double() * float(source.args[1])
    return None


def _is_quantized(node: torch.fx.Node) -> bool:
    """Whether a node quantizes a layer's result, or is an activation before that."""
    name = str(node.target)
    if name.startswith("quantized_decomposed.quantize_per_tensor"):
        return True
    return name in _ACTIVATIONS and any(_is_quantized(user) for user in node.users)
