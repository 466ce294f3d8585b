"""Limitations on the programs of XNNPACK's special cases."""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import copy_limitation
from suites.ops.limitations import LIMITATIONS as OPS
from suites.quant.limitations import LIMITATIONS as QUANT

LIMITATIONS: list[Limitation] = [
    copy_limitation(
        OPS, "cortex_m:int8", "slice_copy/channels_last", "cat_of_*_int", target="cortex_m:*"
    ),
    copy_limitation(
        QUANT, "xnnpack:int8", "int_moved/pad_returned", "int_behind_convolution/padded"
    ),
    copy_limitation(
        QUANT,
        "cortex_m:int8",
        "int_in_place/celu",
        "int_behind_convolution/sum_with_*|int_behind_convolution/cat_*|int_adaptive_pool/of_input",
        target="cortex_m:*",
    ),
    copy_limitation(
        OPS,
        "cortex_m:int8",
        "slice_copy/channels_last",
        "int_behind_convolution/slice",
        target="cortex_m:*",
    ),
    copy_limitation(
        OPS,
        "cortex_m:int8",
        "pixel_shuffle/factor3",
        "int_behind_convolution/view_and_sum|int_behind_convolution/two_views",
        target="cortex_m:*",
    ),
    copy_limitation(
        OPS,
        "portable:fp32",
        "unsqueeze_copy/channels_last",
        "int_behind_convolution/unsqueezed",
        target="cortex_m:*",
    ),
    Limitation(
        target="xnnpack:int8+qat",
        case="int_conv_transpose2d/norm",
        reason="_do_annotate_conv_bn (xnnpack_quantizer_utils.py) quantizes the weight of a "
        "transposed convolution before a batch norm by input channels. ConvolutionConfig refuses "
        "it, and the delegates around it misread their operands "
        "(docs/findings/xnnpack_refused_layer.py). Workaround: `is_per_channel=False`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack/quantizer/"
        "xnnpack_quantizer_utils.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="cortex_m:*",
        case="int_behind_convolution/maximum_of_rows",
        reason="RemoveGetItemPass replaces max.dim by amax and passes the dimension as a number, "
        "where the kernel takes a list. Workaround: `x.amax(2, keepdim=True)`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/transforms/"
        "remove_getitem_op.py",
        stage="run",
        error="takes List[int] for 'dim'",
    ),
    Limitation(
        target="cortex_m:*",
        case="int_add_relu/integers",
        reason="Cortex-M's quantizer annotates no sum of integers, and ActivationFusionPass reads "
        "the scale of its result all the same, to fuse the relu behind it.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/cortex_m/passes/"
        "activation_fusion_pass.py",
        stage="lower",
        error="KeyError: 0",
    ),
    Limitation(
        target="cortex_m:*",
        case="int_add_relu/half|int_mul_relu/half",
        reason="Cortex-M's quantizer annotates float16, and its dequantize_per_tensor takes "
        "no dtype of the result. Workaround: `float()` before the sum.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/cortex_m/passes/"
        "replace_quant_nodes_pass.py",
        stage="lower",
        error="expected at most 6 argument(s) but received 7",
    ),
    Limitation(
        target="xnnpack:fp32",
        case="dropout/beside_its_operand",
        reason="RemoveCloneOpsTransform (backends/transforms/remove_clone_ops.py) removes the "
        "clone of a result although both leave the delegate, and generate_node_to_external_map "
        "(xnnpack_preprocess.py) refuses one node as two outputs "
        "(docs/findings/xnnpack_value_and_clone.py). Workaround: "
        "`self.dropout(features) * 1.0`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/transforms/"
        "remove_clone_ops.py",
        stage="lower",
        error="is already in the inputs",
    ),
]
