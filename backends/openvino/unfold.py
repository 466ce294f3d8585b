"""A pass that gives OpenVINO quantized constants as floats, followed by a quantize operator.

``convert_pt2e`` folds the quantization of weights: codes are constants, and a dequantize operator
follows. OpenVINO's frontend takes a dequantize operator for an identity, because it converts the
quantize operator before it to FakeQuantize, which does both. Codes alone fail or stay codes.
Upstream's flow passes ``fold_quantize=False``. This pass restores that form: the float constants
are the values of the codes, so that quantizing them returns the same codes.
"""

from __future__ import annotations

from typing import Any

import torch
from executorch.backends.transforms.utils import (
    create_constant_placeholder,
    delete_constant_placeholder,
    get_param_tensor,
    is_param_node,
)
from executorch.exir.dialects._ops import ops
from executorch.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult
from torch.export.graph_signature import InputKind


class UnfoldQuantizedConstants(ExportedProgramPassBase):
    """Replace constant codes before a dequantize operator by floats and a quantize operator."""

    def call(self, exported_program: Any) -> Any:
        """Rewrite the program in place."""
        graph = exported_program.graph
        quantized = ops.edge.quantized_decomposed
        quantize = {
            quantized.dequantize_per_tensor.default: quantized.quantize_per_tensor.default,
            quantized.dequantize_per_channel.default: quantized.quantize_per_channel.default,
        }
        modified = False
        for node in list(graph.nodes):
            if node.target not in quantize or not is_param_node(exported_program, node.args[0]):
                continue
            codes, *parameters = node.args
            values = [
                get_param_tensor(exported_program, each)
                if isinstance(each, torch.fx.Node)
                else each
                for each in node.args
            ]
            first = next(each for each in graph.nodes if each.op == "placeholder")
            with graph.inserting_before(first):
                floats = create_constant_placeholder(
                    exported_program,
                    graph,
                    f"{node.name}_floats",
                    InputKind.CONSTANT_TENSOR,
                    node.target._op(*values, **node.kwargs),
                )
            with graph.inserting_before(node):
                restored = graph.call_function(quantize[node.target], (floats, *parameters))
            restored.meta["val"] = codes.meta["val"]
            node.update_arg(0, restored)
            if not codes.users:
                delete_constant_placeholder(exported_program, codes)
            modified = True
        if modified:
            graph.lint()
            exported_program.graph_module.recompile()
        return ExportedProgramPassResult(exported_program, modified)
