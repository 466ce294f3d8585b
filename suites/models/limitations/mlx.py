"""Limitations of MLX."""

from __future__ import annotations

from harness import Limitation, Status

_MLX = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/mlx/"

MLX: list[Limitation] = [
    Limitation(
        target="mlx:*",
        case="whisper/decoder|whisper/night|whisper/tiny_decoder|whisper/decode_dynamic|exporter/whisper",
        reason="decoder.embed_positions.weight[positions]: _index_handler (ops.py) emits "
        "TakeAlongAxisNode when the index has as many dimensions as the tensor, as positions "
        "(1, L) and their embeddings have. That is torch.gather: it fails where the shapes do not "
        "broadcast, and one token at a time only passes because they do.",
        link=f"{_MLX}ops.py",
        stage="run",
        error="(TakeAlongAxisNode): [broadcast_shapes]",
    ),
    Limitation(
        target="mlx:*",
        case="bert/dynamic",
        reason="and_2, the mask of the padding, is read by an index a dimension: for those "
        "_index_handler (ops.py) makes a Python int of every size, while MLXPartitioner asks what "
        "not to decompose, and export then takes the length of the example for the only one.",
        link=f"{_MLX}ops.py",
        stage="run",
        error="(AddNode): [broadcast_shapes] Shapes (1,4,128) and (1,16,128) cannot be broadcast",
    ),
    Limitation(
        target="mlx:*",
        case="sam2/tiny",
        reason="upsample_bicubic2d clamps its indices to 0: emit_lifted_constant "
        "(builder/op_helpers.py) names a constant by its value alone, finds the 0.0 of a float32 "
        "clamp before it, and mlx::clip makes floats of the indices.",
        link=f"{_MLX}builder/op_helpers.py",
        stage="run",
        error="(GatherNode): indices are mlx.core.float32, expected integers",
    ),
    Limitation(
        target="mlx:*",
        case="rt_detr/night",
        reason="The position embedding of the hybrid encoder is computed in float64. "
        "MLXPartitioner takes aten.sin by its name, and what it takes has a float64 input, which "
        "preprocess refuses.",
        link=f"{_MLX}builder/program_builder.py",
        stage="lower",
        error="Found unsupported node: aten_sin_default",
    ),
    Limitation(
        target="mlx:*",
        case="resnet/dynamic",
        reason="embedder.pooler, windows that overlap: _make_pool_handler (ops.py) emits an "
        "AsStridedNode whose sizes and strides are those of the example, as literals, though the "
        "image has another size.",
        link=f"{_MLX}ops.py",
        stage="run",
        error="(AsStridedNode): a view of elements",
    ),
    Limitation(
        target="mlx:*",
        case="dinov2/dynamic",
        reason="The factor by which the embeddings of positions are stretched is a quotient of a "
        "number and a size that is not known, a SymFloat: SlotManager._val_to_idtype has slots for "
        "tensors, SymInt and SymBool.",
        link=f"{_MLX}builder/slot_manager.py",
        stage="lower",
        error="val_to_idtype: IntTrueDiv",
    ),
    Limitation(
        target="mlx:int4",
        case="voxtral/tiny",
        reason="The audio tower adds embed_positions.weight as it adds any tensor. The recipe "
        "quantizes embeddings, and torchao's IntxUnpackedToInt8Tensor has no aten.add: a model "
        "that reads the table itself, not rows of it, is not quantized this way.",
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/quantization/quantize_/"
        "workflows/intx/intx_unpacked_to_int8_tensor.py",
        stage="export",
        error="attempting to run unimplemented operator/function: func=<OpOverload(op='aten.add'",
        shown_as=Status.UNSUPPORTED,
    ),
]
