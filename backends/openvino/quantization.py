"""OpenVINO's PT2E quantizer, as the recipes configure it."""

from __future__ import annotations

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
