"""Limitations of Arm's TOSA backend."""

from __future__ import annotations

from harness import Limitation, Status

_BACKENDS = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/"
_MXFP_OPS = f"{_BACKENDS}arm/ao_ext/ops/"

TOSA: list[Limitation] = [
    Limitation(
        target="tosa:fp",
        case="sam2/night",
        reason="In blocks.1.attn the keys are a slice of one projection, unbind(qkv, 2) of four "
        "windows. PropagateViewCopyPermuteUpPass moves the next view before the slice, and "
        "ViewMap.remap_unit_slice (transforms/dim_maps.py) maps the slice to one range of "
        "(windows * 3 * heads), which is valid for a single window only: keys of other windows "
        "are wrong. Workaround: bring the part to the front first, `qkv.permute(2, 0, 3, 4, "
        "1)[1]`.",
        link=f"{_BACKENDS}transforms/dim_maps.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="rf_detr/tiny",
        reason="The result of torch.empty is an input of the delegate that aten.copy overwrites. "
        "RemoveNoopPass replaces the copy with its source, so the input has no user and "
        "TOSABackend._preprocess_module (arm/tosa/backend.py) omits it, but the program still "
        "passes the argument.",
        link=f"{_BACKENDS}arm/tosa/backend.py",
        stage="run",
        error="TOSA graph has 6 inputs and 5 outputs, the program passes 12 arguments",
    ),
    Limitation(
        target="tosa:fp|tosa:mxfp8_e4m3",
        case="whisper/encoder|mobilebert/tiny|mobilebert/night",
        reason="CheckInt64InputsAndOutputs accepts an int64 arange or full as a constant of its "
        "user, but EmbeddingSupported leaves that user to the CPU, so the constant is delegated "
        "alone. CastInt64BuffersToInt32Pass makes it int32, although the delegate is declared to "
        "return int64. Workaround: make the positions a buffer of the module.",
        link=f"{_BACKENDS}arm/operator_support/tosa_supported_operators.py",
        stage="run",
        error="for a planned tensor of",
    ),
    Limitation(
        target="tosa:int",
        case="llama/decode_positioned",
        reason="Cache updates (index_put) run on the CPU, so a single partition would need their "
        "results and also provide their inputs: a cycle. TOSAPartitioner splits such a partition "
        "into connected components without checking them again (_find_connected_components, "
        "backends/arm/tosa/partitioner.py), and one component, of 644 of 651 nodes, still has "
        "the cycle.",
        link="https://github.com/pytorch/executorch/pull/18191",
        stage="lower",
        error="found dependency cycles",
    ),
    Limitation(
        target="tosa:mxfp8_e4m3",
        case="mamba/tiny|t5/tiny",
        reason="The model reads the weight's dtype from its linear layer (lm_head.weight, "
        "wo.weight). MXFPLinearOp, which replaces the layer, has no attribute `weight`.",
        link=f"{_MXFP_OPS}mxfp_linear_op.py",
        stage="export",
        error="'MXFPLinearOp' object has no attribute 'weight'",
    ),
    Limitation(
        target="tosa:mxfp8_e4m3",
        case="mobilenet_v2/tiny",
        reason="apply_tf_padding reads kernel_size from a convolution. MXFPConv2dOp, which "
        "replaces the layer, has no attribute `kernel_size`.",
        link=f"{_MXFP_OPS}mxfp_conv2d_op.py",
        stage="export",
        error="'MXFPConv2dOp' object has no attribute 'kernel_size'",
    ),
    Limitation(
        target="tosa:mxfp8_e4m3",
        case="resnet/tiny",
        reason="TOSA requires that the stride divides the padded image exactly. "
        "SizeAdjustInputPass crops the image for aten.convolution only, and "
        "RewriteMXFPConv2dPass passes padding and stride unchanged. Workaround: choose an image "
        "size that the stride divides.",
        link=f"{_BACKENDS}arm/_passes/rewrite_mxfp_conv2d.py",
        stage="lower",
        error="invalid TOSA: the stride 2 of CONV2D_BLOCK_SCALED does not divide 15",
    ),
    Limitation(
        target="tosa:int",
        case="mamba/tiny",
        reason="softplus runs on the CPU and splits the layer into three partitions. Where a "
        "partition ends between a slice and its quantize, _detag_boundary_nodes "
        "(tosa/partitioner.py) removes the quantize but keeps the slice, whose input is folded "
        "to int8: the delegate returns int8 for a tensor that the program declares and plans as "
        "float32.",
        link=f"{_BACKENDS}arm/tosa/partitioner.py",
        stage="run",
        error="the delegate returned 1024 bytes int8(1, 128, 8) for a planned tensor",
    ),
]
