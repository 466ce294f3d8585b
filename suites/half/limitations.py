"""Limitations of half precision on XNNPACK."""

from __future__ import annotations

from harness import Limitation, Status

LIMITATIONS: list[Limitation] = [
    Limitation(
        target="xnnpack:bf16",
        case="half_conv/*|half_pool/*|half_softmax/last|half_matmul/batched|half_model/pictures",
        reason="With enable_bf16, XNNPartitionerConfig._check_node_has_valid_dtype accepts "
        "bfloat16 for every operator, and XNNPACK has no such convolution, pooling, softmax or "
        "batched product: the program does not load. Workaround: give XnnpackPartitioner the "
        "configurations of linear layers and elementwise operators only.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack/partition/config/"
        "xnnpack_config.py",
        stage="run",
        error="with code: xnn_status_invalid_parameter",
    ),
    Limitation(
        target="xnnpack:fp16|xnnpack:bf16",
        case="half_norm/wide_layer",
        reason="UpdateMomentsVec (kernels/optimized/cpu/moments_utils.h), which native_layer_norm "
        "calls for rows of 256 elements and more, loads float vectors from the pointer to 16-bit "
        "elements: mean and variance are those of their bits, two halves read as one float "
        "(docs/findings.md). Workaround: `.float()` before the layer and `.half()` behind it, in a "
        "float layer.",
        link="https://github.com/pytorch/executorch/pull/16727",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
]
