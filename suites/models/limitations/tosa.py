"""Limitations of Arm's TOSA backend."""

from __future__ import annotations

from harness import Limitation, Status

_BACKENDS = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/"
_MXFP_OPS = f"{_BACKENDS}arm/ao_ext/ops/"

TOSA: list[Limitation] = [
    Limitation(
        target="tosa:fp",
        case="sam2/night",
        reason="blocks.1.attn: keys are slices of the projection, unbind(qkv, 2) of four windows. "
        "PropagateViewCopyPermuteUpPass moves the view of such a slice before it: "
        "ViewMap.remap_unit_slice (transforms/dim_maps.py) takes (windows, 1, heads) as one "
        "dimension for a range of (windows * 3 * heads), which holds for one window only.",
        link=f"{_BACKENDS}transforms/dim_maps.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="rf_detr/tiny",
        reason="What torch.empty gives is an input of the delegate that aten.copy overwrites: "
        "RemoveNoopPass takes the copy for its source, the input has no user, and "
        "TOSABackend._preprocess_module (arm/tosa/backend.py) leaves out placeholders without "
        "users, while the program passes the argument still.",
        link=f"{_BACKENDS}arm/tosa/backend.py",
        stage="run",
        error="TOSA graph has 6 inputs and 5 outputs, the program passes 12 arguments",
    ),
    Limitation(
        target="tosa:fp|tosa:mxfp8_e4m3",
        case="whisper/encoder|mobilebert/tiny|mobilebert/night",
        reason="CheckInt64InputsAndOutputs accepts an int64 arange or full as a constant that its "
        "user consumes, but EmbeddingSupported leaves that user to the CPU: the constant is "
        "delegated alone, and CastInt64BuffersToInt32Pass makes it int32 although the delegate is "
        "declared to return int64.",
        link=f"{_BACKENDS}arm/operator_support/tosa_supported_operators.py",
        stage="run",
        error="for a planned tensor of",
    ),
    Limitation(
        target="tosa:int",
        case="llama/decode",
        reason="Updates of the cache (index_put) are left to the CPU, so that the one partition "
        "leaves there and comes back: a cycle. TOSAPartitioner splits such a partition into "
        "connected components and does not validate these (_find_connected_components, "
        "backends/arm/tosa/partitioner.py): one of 644 of its 651 nodes has the cycle still.",
        link="https://github.com/pytorch/executorch/pull/18191",
        stage="lower",
        error="found dependency cycles",
    ),
    Limitation(
        target="tosa:mxfp8_e4m3",
        case="mamba/tiny|t5/tiny",
        reason="The model asks its linear layer for the dtype of its weight (lm_head.weight, "
        "wo.weight): MXFPLinearOp, which stands for the layer, has none by that name.",
        link=f"{_MXFP_OPS}mxfp_linear_op.py",
        stage="export",
        error="'MXFPLinearOp' object has no attribute 'weight'",
    ),
    Limitation(
        target="tosa:mxfp8_e4m3",
        case="mobilenet_v2/tiny",
        reason="apply_tf_padding asks a convolution for its kernel_size: MXFPConv2dOp, which "
        "stands for the layer, has none.",
        link=f"{_MXFP_OPS}mxfp_conv2d_op.py",
        stage="export",
        error="'MXFPConv2dOp' object has no attribute 'kernel_size'",
    ),
    Limitation(
        target="tosa:mxfp8_e4m3",
        case="resnet/tiny",
        reason="TOSA wants a stride that ends at the border of the padded image. "
        "SizeAdjustInputPass cuts the image for aten.convolution only, and "
        "RewriteMXFPConv2dPass takes padding and stride as they are.",
        link=f"{_BACKENDS}arm/_passes/rewrite_mxfp_conv2d.py",
        stage="lower",
        error="invalid TOSA: the stride 2 of CONV2D_BLOCK_SCALED does not divide 15",
    ),
    Limitation(
        target="tosa:int",
        case="mamba/tiny",
        reason="softplus is left to the CPU, and the layer becomes three partitions. Where one "
        "ends between a slice and its quantize, _detag_boundary_nodes (tosa/partitioner.py) takes "
        "the quantize out and leaves the slice, whose input is folded to int8: the delegate "
        "returns int8 for a tensor that the program declares, plans and quantizes as float32.",
        link=f"{_BACKENDS}arm/tosa/partitioner.py",
        stage="run",
        error="the reference model returned 1024 bytes int8(1, 128, 8) for a planned tensor",
    ),
]
