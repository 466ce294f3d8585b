"""Known gaps of the models suite."""

from __future__ import annotations

from harness import Limitation, Status

_MLX = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/mlx/"

LIMITATIONS: list[Limitation] = [
    Limitation(
        target="mlx:*",
        case="whisper/decoder",
        reason="decoder.embed_positions.weight[positions]: _index_handler (ops.py) emits "
        "TakeAlongAxisNode when the index has as many dimensions as the tensor, which is "
        "torch.gather.",
        link=f"{_MLX}ops.py",
        stage="run",
        error="(TakeAlongAxisNode): [broadcast_shapes] Shapes (128) and (12)",
    ),
    Limitation(
        target="mlx:*",
        case="bert/dynamic",
        reason="and_2, the mask of the padding, is read by an index a dimension: for those "
        "_index_handler (ops.py) makes a Python int of every size, while MLXPartitioner asks what "
        "not to decompose, and export then takes the length of the example for the only one.",
        link=f"{_MLX}ops.py",
        stage="run",
        error="has shape (1, 4), the program was lowered for (1, 16)",
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
        case="rt_detr/tiny",
        reason="The position embedding of the hybrid encoder is computed in float64. "
        "MLXPartitioner takes aten.sin by its name, and what it takes has a float64 input, which "
        "preprocess refuses.",
        link=f"{_MLX}builder/program_builder.py",
        stage="lower",
        error="Found unsupported node: aten_sin_default",
    ),
    Limitation(
        target="xnnpack:*",
        case="siglip/tiny",
        reason="GeluVisitor.define_node (backends/xnnpack/operators/op_gelu.py) drops the "
        "approximate argument: the delegate computes the exact gelu.",
        link="https://github.com/pytorch/executorch/pull/22851",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="metal:*",
        case="siglip/tiny",
        reason="Inductor's layout optimization (GraphLowering.decide_layout_opt) gives most "
        "2-D convolutions channels-last operands; aoti_torch_mps_convolution "
        "(op_convolution.mm) reads them as if they were contiguous: silently wrong.",
        link="https://github.com/pytorch/executorch/issues/22951",
        stage="lower",
        error="are not contiguous: the runtime reads them as if they were [defect]",
    ),
    Limitation(
        target="tosa:fp",
        case="whisper/encoder",
        reason="CheckInt64InputsAndOutputs accepts the int64 arange of the position embedding as "
        "a constant that its user consumes, but EmbeddingSupported leaves that user to the CPU: "
        "the arange is delegated alone, and CastInt64BuffersToInt32Pass makes it int32 although "
        "the delegate is declared to return int64.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/operator_support/"
        "tosa_supported_operators.py",
        stage="run",
        error="bytes int32(32,) for a planned tensor of 256 bytes torch.int64(32,)",
    ),
    # Generation.
    Limitation(
        target="xnnpack:*",
        case="gemma3/decode*",
        reason="GeluVisitor.define_node (backends/xnnpack/operators/op_gelu.py) drops the "
        "approximate argument: the delegate computes the exact gelu.",
        link="https://github.com/pytorch/executorch/pull/22851",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="mlx:*",
        case="whisper/decode_dynamic",
        reason="_index_handler (ops.py) emits TakeAlongAxisNode when the index has as many "
        "dimensions as the tensor, as positions and their embeddings in Whisper have. That is "
        "torch.gather: it fails where the shapes do not broadcast, and one token at a time only "
        "passes because they do.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/mlx/ops.py",
        stage="run",
        error="(TakeAlongAxisNode): [broadcast_shapes]",
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
]

# Of exporter.py.
LIMITATIONS += [
    Limitation(
        target="xnnpack:*",
        case="exporter/siglip|exporter/gemma3",
        reason="GeluVisitor.define_node (backends/xnnpack/operators/op_gelu.py) drops the "
        "approximate argument: the delegate computes the exact gelu.",
        link="https://github.com/pytorch/executorch/pull/22851",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="*",
        case="exporter/gemma3_prefill|exporter/gemma3_decode",
        reason="_patch_sliding_window_layer (transformers/exporters/exporter_dynamo.py) traces a "
        "DynamicSlidingWindowLayer as a DynamicLayer: the program returns the keys and values of "
        "all positions where the model keeps those of its window, and the cache's own count of "
        "them stays where it was.",
        link="https://github.com/huggingface/transformers/pull/49542",
        stage="compare",
        error="['cumulative_length']",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="mlx:*",
        case="exporter/whisper",
        reason="_index_handler (backends/mlx/ops.py) takes an index of as many dimensions as what "
        "it indexes for an element-wise gather: the table of positions, indexed by position ids "
        "of shape (1, L), becomes a TakeAlongAxisNode, which mlx refuses to broadcast.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/mlx/ops.py",
        stage="run",
        error="(TakeAlongAxisNode): [broadcast_shapes]",
    ),
]
