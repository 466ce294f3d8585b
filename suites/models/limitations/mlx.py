"""Limitations of MLX."""

from __future__ import annotations

from harness import Limitation, Status

_MLX = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/mlx/"

MLX: list[Limitation] = [
    Limitation(
        target="mlx:*",
        case="whisper/decoder|whisper/night|whisper/tiny_decoder|whisper/decode_dynamic|exporter/whisper",
        reason="The model reads decoder.embed_positions.weight[positions]. _index_handler "
        "(ops.py) emits TakeAlongAxisNode when the index has as many dimensions as the tensor, "
        "which is torch.gather: it fails where the shapes do not broadcast, and passes for one "
        "token at a time only because they do. Workaround: `torch.nn.functional.embedding`.",
        link=f"{_MLX}ops.py",
        stage="run",
        error="(TakeAlongAxisNode): [broadcast_shapes]",
    ),
    Limitation(
        target="mlx:*",
        case="bert/dynamic",
        reason="The model reads its padding mask (and_2) with one index for each dimension. For "
        "such an index _index_handler (ops.py) converts every size to a Python int while "
        "MLXPartitioner decides which operators to keep, so export makes the length of the "
        "example the only one.",
        link=f"{_MLX}ops.py",
        stage="run",
        error="(AddNode): [broadcast_shapes] Shapes (1,4,128) and (1,16,128) cannot be broadcast",
    ),
    Limitation(
        target="mlx:*",
        case="sam2/tiny",
        reason="upsample_bicubic2d clamps its indices to 0. emit_lifted_constant "
        "(builder/op_helpers.py) names a constant by its value alone and reuses the 0.0 of an "
        "earlier float32 clamp, so mlx::clip makes floats of the indices.",
        link=f"{_MLX}builder/op_helpers.py",
        stage="run",
        error="(GatherNode): indices are mlx.core.float32, expected integers",
    ),
    Limitation(
        target="mlx:*",
        case="rt_detr/night",
        reason="The hybrid encoder computes its position embedding in float64. MLXPartitioner "
        "accepts aten.sin whatever its dtype, and preprocess refuses the float64 input. "
        "Workaround: compute it in float32.",
        link=f"{_MLX}builder/program_builder.py",
        stage="lower",
        error="Found unsupported node: aten_sin_default",
    ),
    Limitation(
        target="mlx:*",
        case="resnet/dynamic",
        reason="embedder.pooler pools overlapping windows. _make_pool_handler (ops.py) emits an "
        "AsStridedNode with the sizes and strides of the example as literals, although the size "
        "of the image is dynamic.",
        link=f"{_MLX}ops.py",
        stage="run",
        error="(AsStridedNode): a view of elements",
    ),
    Limitation(
        target="mlx:*",
        case="dinov2/dynamic",
        reason="The model scales position embeddings by a number divided by a dynamic size, a "
        "SymFloat. SlotManager._val_to_idtype has slots for tensors, SymInt and SymBool only.",
        link=f"{_MLX}builder/slot_manager.py",
        stage="lower",
        error="val_to_idtype: IntTrueDiv",
    ),
    Limitation(
        target="mlx:int4",
        case="voxtral/tiny",
        reason="The audio tower adds embed_positions.weight to a tensor. The recipe quantizes "
        "embedding tables, and torchao's IntxUnpackedToInt8Tensor has no aten.add, so a model "
        "that uses the whole table cannot be quantized this way. Workaround: read the table with "
        "`torch.nn.functional.embedding`.",
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/quantization/quantize_/"
        "workflows/intx/intx_unpacked_to_int8_tensor.py",
        stage="export",
        error="attempting to run unimplemented operator/function: func=<OpOverload(op='aten.add'",
        shown_as=Status.UNSUPPORTED,
    ),
]
