"""XNNPACK's PT2E quantizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness import UnsupportedProgram

if TYPE_CHECKING:
    import torch


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
    quantizer.validate = _require_annotations
    return quantizer


def keep_float(quantizer: Any, names: Sequence[str]) -> Any:
    """Leave modules in float: ``set_module_name`` of XNNPACK's quantizer refuses None.

    Args:
        quantizer: of :func:`make_quantizer`.
        names: names of modules; those inside of them stay in float, too.
    """
    earlier = quantizer.filter_fn

    def is_quantized(node: torch.fx.Node) -> bool:
        paths = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
        is_inside = any(path == name or path.startswith(f"{name}.")
                        for path in paths for name in names)  # fmt: skip
        return not is_inside and (earlier is None or earlier(node))

    return quantizer.set_filter_function(is_quantized)


def _require_annotations(model: torch.fx.GraphModule) -> None:
    """Reject a model without annotations: it would run as in the float recipe."""
    from torchao.quantization.pt2e.quantizer import QuantizationAnnotation
    from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

    for node in model.graph.nodes:
        found = node.meta.get(Q_ANNOTATION_KEY, QuantizationAnnotation())
        if any(spec is not None for spec in (found.output_qspec, *found.input_qspec_map.values())):
            return
    raise UnsupportedProgram("XNNPACK's quantizer quantizes nothing in this program")
