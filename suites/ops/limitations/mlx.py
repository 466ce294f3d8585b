"""Limitations in the MLX backend."""

from __future__ import annotations

from harness import Limitation, Status

_ALL = "mlx:*"
_HALF = "mlx:bf16|mlx:fp16"
_SOURCE = "https://github.com/pytorch/executorch/blob/v1.5.1/"
_OPS = _SOURCE + "backends/mlx/ops.py"

MLX: list[Limitation] = [
    # Partitioning and memory layout
    Limitation(
        target=_ALL,
        case="nonzero/2d|nonzero/masked_select",
        reason="_noop_handler (ops.py) takes aten._assert_scalar, so MLXPartitioner "
        "(partitioner.py) makes a partition of nothing but the assertions on the size. It has no "
        "outputs, and torch's insert_subgm does not know where to put its call.",
        link=_SOURCE + "backends/mlx/partitioner.py",
        stage="lower",
        error="Cannot determine insertion point",
    ),
    Limitation(
        target=_ALL,
        case="_to_copy/to_channels_last",
        reason="require_contiguous_format (ops.py) leaves the conversion to the runtime, and the "
        "partitioner takes what follows without a look at its layout: _make_io_slots "
        "(builder/program_builder.py) then refuses the channels-last input.",
        link=_SOURCE + "backends/mlx/builder/program_builder.py",
        stage="lower",
        error="MLX backend requires contiguous input tensors",
    ),
    Limitation(
        target=_ALL,
        case="_to_copy/to_channels_last_and_dtype|clone/to_channels_last",
        reason="require_contiguous_format (ops.py) leaves conversions to channels-last to the "
        "runtime. Lowered for MLX, that is without dim order, they have a memory_format argument, "
        "and the emitter (exir/emit/_emitter.py, _constant_to_evalue) writes contiguous only.",
        link=_SOURCE + "exir/emit/_emitter.py",
        stage="to_executorch",
        error="memory_format that is unsupported in ExecuTorch",
        shown_as=Status.UNSUPPORTED,
    ),
    # Lowered to instructions that fail
    Limitation(
        target=_ALL,
        case="convolution/1d_unbatched|convolution/2d_unbatched|max_pool2d_with_indices/unbatched",
        reason="_emit_conv and _emit_pool_nd (ops.py) permute every input as if it had a batch "
        "dimension; one without does not have as many axes.",
        link=_OPS,
        stage="run",
        error="[transpose] Received",
    ),
    Limitation(
        target=_ALL,
        case="max_pool2d_with_indices/indices",
        reason="_make_pool_handler (ops.py) emits instructions for the values only, also when the "
        "graph uses the indices: their slot is copied to the output and never written.",
        link=_OPS,
        stage="run",
        error="before anything writes it",
    ),
    Limitation(
        target=_ALL,
        case="arange/negative_step_fp32",
        reason="ARangeNode has integers only, and _arange_start_step_handler (ops.py) truncates "
        "start, end and step to them: a step of -0.5 becomes 0, which the runtime refuses, one of "
        "1.5 would become 1.",
        link=_OPS,
        stage="run",
        error="field step is 0",
    ),
    Limitation(
        target=_ALL,
        case="full/bool",
        reason="_make_full_handler (ops.py) makes a tensor without a dtype argument float32, "
        "where aten.full takes the dtype of the value; mlx has no exclusive or of bool and "
        "float32.",
        link=_OPS,
        stage="run",
        error="[bitwise_xor] Only allowed on integer or boolean types",
    ),
    Limitation(
        target=_ALL,
        case="fill/from_tensor",
        reason="fill with a tensor becomes aten.copy, for which _copy_handler (ops.py) emits the "
        "source as it is instead of broadcasting it to the destination; the runtime cannot resize "
        "the output to another rank.",
        link=_OPS,
        stage="run",
        error="has shape (), the program plans (3, 5)",
    ),
    Limitation(
        target=_ALL,
        case="index/2d_index",
        reason="_index_handler (ops.py) emits TakeAlongAxisNode when the index has as many "
        "dimensions as the tensor. That is torch.gather: it fails where the shapes do not "
        "broadcast, and is silently wrong where they do.",
        link=_OPS,
        stage="run",
        error="(TakeAlongAxisNode): [broadcast_shapes]",
    ),
    Limitation(
        target=_ALL,
        case="mm/int32",
        reason="_mm_handler (ops.py) delegates matrix products of any dtype, mlx::matmul "
        "multiplies floating-point matrices only.",
        link=_OPS,
        stage="run",
        error="[matmul] Only inexact types are supported",
    ),
    Limitation(
        target=_ALL,
        case="constant_pad_nd/negative_crops",
        reason="_constant_pad_nd_handler (ops.py) hands negative widths, which in ATen crop, to "
        "mlx::pad, which refuses them.",
        link=_OPS,
        stage="run",
        error="Invalid low padding size (-1) passed to pad",
    ),
    # Lowered to instructions that compute something else
    Limitation(
        target=_ALL,
        case="unfold/im2col",
        reason="mlx::gather puts the dimensions of the indices first. When unindexed dimensions "
        "precede the indexed ones, _index_handler (ops.py) reshapes its result where a "
        "transposition is needed: the values are permuted.",
        link="https://github.com/pytorch/executorch/pull/19177",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="sort/descending_dim0|topk/smallest_dim0",
        reason="_sort_handler (ops.py) does not look at descending, nor _topk_handler at largest: "
        "the result is sorted ascending, and has the largest elements.",
        link=_OPS,
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="mlx:fp32",
        case="rms_norm/no_weight_default_eps",
        reason="_aten_rms_norm_handler (ops.py) takes 1e-5 for an eps of None, where ATen takes "
        "the machine epsilon of the dtype, 1.2e-7 for float32.",
        link=_OPS,
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_HALF,
        case="index_put/bool_mask",
        reason="Left to the runtime, where op_index_put.cpp demands the tensor's own dtype of the "
        "values; ATen converts a 0-D one, here float32.",
        link=_SOURCE + "kernels/portable/cpu/op_index_put.cpp",
        stage="run",
        error="method->execute() failed with error 0x12",
    ),
]
