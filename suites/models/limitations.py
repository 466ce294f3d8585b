"""Known gaps of the models suite."""

from __future__ import annotations

from harness import Limitation, Status

LIMITATIONS: list[Limitation] = [
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
