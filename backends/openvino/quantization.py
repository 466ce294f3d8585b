"""OpenVINO's PT2E quantizer, as the recipes configure it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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

    def is_inside(node: torch.fx.Node) -> bool:
        paths = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
        return any(path == name or path.startswith(f"{name}.") for path in paths for name in names)

    def annotate_others(model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        ignored.extend(node.name for node in model.graph.nodes if is_inside(node))
        quantizer.set_ignored_scope(names=ignored, validate=False)
        annotated: torch.fx.GraphModule = annotate(model)
        return annotated

    quantizer.annotate = annotate_others
    return quantizer


def add_offsets(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return the quantized graph with values decoded as OpenVINO's FakeQuantize does.

    Its frontend converts quantize and dequantize to one FakeQuantize, whose specification decodes a
    code as ``code * scale + low``, where ``low`` is the value of the smallest code. Each term is
    rounded in float32, where ``(code - zero_point) * scale`` is exact but for one rounding; the
    value of the zero point is not quite 0.

    Args:
        graph: of ``convert_pt2e``; not changed. The result shares its tensors.
    """
    import torch

    decode = torch.ops.quantized_decomposed.dequantize_per_tensor.default
    decoded = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    for node in list(decoded.graph.nodes):
        if node.target is not decode:
            continue
        codes, scale, zero_point, smallest = node.args[:4]
        with decoded.graph.inserting_before(node):
            value: Any = codes
            for operator, operand in (
                (torch.ops.aten.to.dtype, torch.float32),
                (torch.ops.aten.sub.Tensor, smallest),
                (torch.ops.aten.mul.Tensor, scale),
                (torch.ops.aten.add.Tensor, (smallest - zero_point) * scale),
            ):
                value = decoded.graph.call_function(operator, (value, operand))
                value.meta = dict(node.meta)
        node.replace_all_uses_with(value)
        decoded.graph.erase_node(node)
    decoded.graph.lint()
    decoded.recompile()
    return decoded
