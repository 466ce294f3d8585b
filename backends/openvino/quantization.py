"""OpenVINO's PT2E quantizer, as the recipes configure it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.backend_api import is_in_module

if TYPE_CHECKING:
    import torch


def make_quantizer(mode: str, **options: Any) -> Any:
    """Make the quantizer.

    Args:
        mode: a name of upstream's ``QuantizationMode``, such as ``INT8_SYM``.
        options: options of nncf's algorithm, such as ``group_size``.
    """
    from executorch.backends.openvino.quantizer import OpenVINOQuantizer, QuantizationMode

    return OpenVINOQuantizer(mode=QuantizationMode[mode], **options)


def keep_float(quantizer: Any, names: Sequence[str]) -> Any:
    """Let a quantizer leave modules in float: nncf's ignored scope has names of nodes only.

    Args:
        quantizer: of :func:`make_quantizer`.
        names: names of modules; those inside of them stay in float, too.
    """
    annotate = quantizer.annotate
    ignored: list[str] = getattr(quantizer, "nodes_in_float", [])
    quantizer.nodes_in_float = ignored

    def annotate_others(model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        ignored.extend(node.name for node in model.graph.nodes if is_in_module(node, names))
        quantizer.set_ignored_scope(names=ignored, validate=False)
        annotated: torch.fx.GraphModule = annotate(model)
        return annotated

    quantizer.annotate = annotate_others
    return quantizer


def spell_fake_quantize(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return the quantized graph with activations rounded as OpenVINO's FakeQuantize rounds them.

    Its frontend converts quantize and dequantize to one FakeQuantize. With ``low`` the value of the
    smallest code and ``levels`` the number of codes, that computes in float32

        round(clamp(x / scale - low / scale, 0, levels - 1)) * scale + low

    The plugin multiplies by ``1 / scale`` (FakeQuantize in OpenVINO's specification of operations;
    initializePostOpData in nodes/fake_quantize.cpp). Each operator rounds: a value near a tie gets
    either code, and the value of the zero point is not quite 0. The observers of the recipes put
    the largest value at 127.5 steps, which is a tie. ``low`` is a tensor of its own, so that its
    rounding is common to all values: behind an integer product the plugin adds ``low`` times the
    sum of the weights.

    Args:
        graph: of ``convert_pt2e``; not changed. The result shares its tensors.
    """
    import torch

    aten, quantized = torch.ops.aten, torch.ops.quantized_decomposed
    spelled = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    nodes = spelled.graph

    def append(before: torch.fx.Node, value: Any, operator: Any, *operands: Any) -> torch.fx.Node:
        with nodes.inserting_before(before):
            result = nodes.call_function(operator, (value, *operands))
        result.meta = dict(before.meta)
        return result

    for node in list(nodes.nodes):
        if node.target is not quantized.quantize_per_tensor.default:
            continue
        value, scale, zero_point, smallest, largest = node.args[:5]
        codes = append(node, value, aten.mul.Tensor, 1.0 / scale)
        codes = append(node, codes, aten.add.Tensor, float(zero_point - smallest))
        codes = append(node, codes, aten.clamp.default, 0.0, float(largest - smallest))
        codes = append(node, codes, aten.round.default)
        for reader in list(node.users):
            if reader.target is quantized.dequantize_per_tensor.default:
                decoded = append(reader, codes, aten.mul.Tensor, scale)
                low = append(reader, (), aten.full.default, float(smallest - zero_point))
                low = append(reader, low, aten.mul.Tensor, scale)
                decoded = append(reader, decoded, aten.add.Tensor, low)
                reader.replace_all_uses_with(decoded)
                nodes.erase_node(reader)
        if not node.users:
            nodes.erase_node(node)
    nodes.eliminate_dead_code()
    nodes.lint()
    spelled.recompile()
    return spelled
