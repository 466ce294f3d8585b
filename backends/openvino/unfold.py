"""A pass that gives OpenVINO quantized constants as floats, followed by a quantize operator.

``convert_pt2e`` folds the quantization of weights: codes are constants, and a dequantize operator
follows. OpenVINO's frontend takes a dequantize operator for an identity, because it converts the
quantize operator before it to FakeQuantize, which does both. Codes alone fail or stay codes.
Upstream's flow passes ``fold_quantize=False``. This pass restores that form: the float constants
are the values of the codes, so that quantizing them returns the same codes.

The functions are copied into scripts: they import what they need.
"""

from __future__ import annotations

from typing import Any


def make_unfolding_pass() -> Any:
    """Make the pass, for the transform passes before partitioning."""
    from executorch.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult

    class UnfoldQuantizedConstants(ExportedProgramPassBase):  # type: ignore[misc]
        def call(self, exported_program: Any) -> Any:
            modified = unfold_constants(exported_program)
            return ExportedProgramPassResult(exported_program, modified)

    return UnfoldQuantizedConstants()


def unfold_constants(program: Any) -> bool:
    """Replace constant codes before a dequantize operator by floats and a quantize operator.

    Args:
        program: an exported program of the edge dialect; changed in place.

    Returns:
        Whether it was changed.
    """
    import torch
    from executorch.backends.openvino._passes.decompose_floor_divide_pass import exir_ops
    from executorch.backends.transforms import utils
    from torch.export.graph_signature import InputKind

    graph, quantized = program.graph, exir_ops.edge.quantized_decomposed
    quantize = {
        quantized.dequantize_per_tensor.default: quantized.quantize_per_tensor.default,
        quantized.dequantize_per_channel.default: quantized.quantize_per_channel.default,
    }
    modified = False
    for node in list(graph.nodes):
        if node.target not in quantize or not utils.is_param_node(program, node.args[0]):
            continue
        codes, *parameters = node.args
        values = [
            utils.get_param_tensor(program, each) if isinstance(each, torch.fx.Node) else each
            for each in node.args
        ]
        floats_of_codes = node.target._op(*values, **node.kwargs)
        first = next(each for each in graph.nodes if each.op == "placeholder")
        with graph.inserting_before(first):
            floats = utils.create_constant_placeholder(
                program, graph, f"{node.name}_floats", InputKind.CONSTANT_TENSOR, floats_of_codes
            )
        with graph.inserting_before(node):
            restored = graph.call_function(quantize[node.target], (floats, *parameters))
        restored.meta["val"] = codes.meta["val"]
        node.update_arg(0, restored)
        if not codes.users:
            utils.delete_constant_placeholder(program, codes)
        modified = True
    if modified:
        graph.lint()
        program.graph_module.recompile()
    return modified
