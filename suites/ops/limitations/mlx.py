"""Limitations in the MLX backend."""

from __future__ import annotations

from harness import Limitation, Status

_ALL = "mlx:*"
_HALF = "mlx:bf16|mlx:fp16"
_SOURCE = "https://github.com/pytorch/executorch/blob/v1.5.1/"
_OPS = _SOURCE + "backends/mlx/ops.py"

MLX: list[Limitation] = [
    Limitation(
        target=_ALL,
        case="norm_written/linear_*",
        reason="tag_mutated_buffer (exir/backend/utils.py) gives a written buffer to a delegate "
        "that uses it, also where another reader stays outside, here a batch norm of rank 2, which "
        "MLX does not take: that one reads a constant copy with the first value "
        "(docs/findings/exir_buffer_written_outside.py).",
        link=_SOURCE + "exir/backend/utils.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    # Partitioning and memory layout
    Limitation(
        target=_ALL,
        case="nonzero/2d|nonzero/masked_select",
        reason="_noop_handler (ops.py) accepts aten._assert_scalar, so MLXPartitioner "
        "(partitioner.py) creates a partition that contains only the assertions on the size. It "
        "has no outputs, and torch's insert_subgm raises an error.",
        link=_SOURCE + "backends/mlx/partitioner.py",
        stage="lower",
        error="Cannot determine insertion point",
    ),
    Limitation(
        target=_ALL,
        case="_to_copy/to_channels_last",
        reason="require_contiguous_format (ops.py) leaves the layout conversion to the runtime, "
        "and the partitioner delegates the next node without checking its layout. _make_io_slots "
        "(builder/program_builder.py) then refuses the channels-last input.",
        link=_SOURCE + "backends/mlx/builder/program_builder.py",
        stage="lower",
        error="MLX backend requires contiguous input tensors",
    ),
    Limitation(
        target=_ALL,
        case="_to_copy/to_channels_last_and_dtype|clone/to_channels_last",
        reason="require_contiguous_format (ops.py) leaves conversions to channels-last to the "
        "runtime. MLX lowers without dim order, so they have a memory_format argument, and the "
        "emitter (exir/emit/_emitter.py, _constant_to_evalue) supports contiguous only.",
        link=_SOURCE + "exir/emit/_emitter.py",
        stage="to_executorch",
        error="memory_format that is unsupported in ExecuTorch",
        shown_as=Status.UNSUPPORTED,
    ),
    # Lowered to instructions that fail
    Limitation(
        target=_ALL,
        case="convolution/1d_unbatched|convolution/2d_unbatched|max_pool2d_with_indices/unbatched"
        "|avg_pool2d/unbatched",
        reason="_emit_conv and _emit_pool_nd (ops.py) permute every input as if it had a batch "
        "dimension, so an input without one fails. Workaround: add a dimension, `x[None]`.",
        link=_OPS,
        stage="run",
        error="[transpose] Received",
    ),
    Limitation(
        target=_ALL,
        case="max_pool2d_with_indices/indices",
        reason="_make_pool_handler (ops.py) emits instructions for the values only, even when the "
        "graph uses the indices. The slot of the indices is copied to the output and never "
        "written.",
        link=_OPS,
        stage="run",
        error="before anything writes it",
    ),
    Limitation(
        target=_ALL,
        case="arange/negative_step_fp32",
        reason="ARangeNode stores integers, and _arange_start_step_handler (ops.py) truncates "
        "start, end and step to integers. A step of -0.5 becomes 0, which the runtime refuses; a "
        "step of 1.5 would become 1. Workaround: multiply a range of integers by the step.",
        link=_OPS,
        stage="run",
        error="field step is 0",
    ),
    Limitation(
        target=_ALL,
        case="full/bool",
        reason="_make_full_handler (ops.py) creates float32 when aten.full has no dtype argument, "
        "where ATen takes the dtype of the value; mlx has no exclusive or of bool and float32. "
        "Workaround: pass `dtype=torch.bool`.",
        link=_OPS,
        stage="run",
        error="[bitwise_xor] Only allowed on integer or boolean types",
    ),
    Limitation(
        target=_ALL,
        case="fill/from_tensor",
        reason="fill with a tensor becomes aten.copy, for which _copy_handler (ops.py) emits the "
        "source instead of broadcasting it to the shape of the destination. The runtime cannot "
        "resize the output to another rank. Workaround: `value.expand_as(x)`.",
        link=_OPS,
        stage="run",
        error="has shape (), the program plans (3, 5)",
    ),
    Limitation(
        target=_ALL,
        case="index/2d_index",
        reason="_index_handler (ops.py) emits TakeAlongAxisNode when the index has as many "
        "dimensions as the tensor. That is torch.gather: it fails where the shapes do not "
        "broadcast, and is silently wrong where they do. Workaround: index with "
        "`index.flatten()` and reshape the result.",
        link=_OPS,
        stage="run",
        error="(TakeAlongAxisNode): [broadcast_shapes]",
    ),
    Limitation(
        target=_ALL,
        case="mm/int32",
        reason="_mm_handler (ops.py) delegates matrix products of any dtype, but mlx::matmul "
        "supports floating-point matrices only.",
        link=_OPS,
        stage="run",
        error="[matmul] Only inexact types are supported",
    ),
    Limitation(
        target=_ALL,
        case="constant_pad_nd/negative_crops",
        reason="_constant_pad_nd_handler (ops.py) passes negative widths, which crop in ATen, to "
        "mlx::pad, which refuses them. Workaround: slice the tensor instead.",
        link=_OPS,
        stage="run",
        error="Invalid low padding size (-1) passed to pad",
    ),
    # Lowered to instructions that compute something else
    Limitation(
        target=_ALL,
        case="convolution/1d_tied",
        reason="_emit_channel_last_weight (ops.py) names a permuted weight after the parameter, "
        "whatever the permutation, and the second layer gets the constant of the first "
        "(docs/findings/mlx_shared_convolution_weight.py). Workaround: `self.weight * 1.0` in "
        "the second layer.",
        link=_OPS,
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="convolution/2d_channels_last_weight",
        reason="The runtime copies the bytes of a row-major result, and the program plans an "
        "output that is channels-last (docs/findings/mlx_output_layout.py). Workaround: "
        "`model.to(memory_format=torch.contiguous_format)` before export.",
        link=_SOURCE + "backends/mlx/runtime/MLXBackend.cpp",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="var/fractional_correction",
        reason="_var_handler and _std_handler (ops.py) truncate the correction to an integer. "
        "Workaround: `torch.var(x, 0, correction=0) * 4 / 3.5` for four values and 0.5.",
        link=_OPS,
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="unfold/im2col",
        reason="mlx::gather puts the dimensions of the indices first. Where unindexed dimensions "
        "precede the indexed ones, _index_handler (ops.py) reshapes the result instead of "
        "transposing it, so values are permuted.",
        link="https://github.com/pytorch/executorch/pull/19177",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="sort/descending_dim0|topk/smallest_dim0",
        reason="_sort_handler (ops.py) ignores descending, and _topk_handler ignores largest: a "
        "sort is always ascending, and topk always returns the largest elements. Workaround: "
        "sort and choose from the negated tensor, and negate the result.",
        link=_OPS,
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="mlx:fp32",
        case="rms_norm/no_weight_default_eps",
        reason="_aten_rms_norm_handler (ops.py) uses 1e-5 for an eps of None, where ATen uses the "
        "machine epsilon of the dtype, 1.2e-7 for float32. Workaround: pass `eps`.",
        link=_OPS,
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_HALF,
        case="index_put/bool_mask",
        reason="The index_put is a fallback node. op_index_put.cpp requires values of the "
        "tensor's dtype, where ATen converts a 0-D value, here float32. Workaround: convert the "
        "value, `.to(x.dtype)`.",
        link=_SOURCE + "kernels/portable/cpu/op_index_put.cpp",
        stage="run",
        error="method->execute() failed with error 0x12",
    ),
]
