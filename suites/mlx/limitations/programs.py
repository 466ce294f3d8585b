"""Limitations of the partitioning of programs into delegated and fallback nodes."""

from __future__ import annotations

from harness import Limitation, Status

_ALL = "mlx:*"
_SOURCE = "https://github.com/pytorch/executorch/blob/v1.5.1/"
_REINPLACE = _SOURCE + "exir/passes/reinplace.py"
_LOWERED = _SOURCE + "exir/lowered_backend_module.py"

PROGRAMS: list[Limitation] = [
    # In-place operations outside the delegate
    Limitation(
        target=_ALL,
        case="reinplace/operand_is_output_undelegated",
        reason="reinplace_pass (exir/passes/reinplace.py) does not count a program output as a "
        "later use. MLXReinplacePass runs it before partitioning, so it also makes fallback "
        "nodes in-place, which would overwrite an output. The runtime has no kernel for "
        "aten.exp_ and refuses the program. Inside a delegate results are right. Workaround: "
        "lower without `MLXReinplacePass`.",
        link=_REINPLACE,
        stage="run",
        error="the runtime has no kernel aten::add_.Tensor, aten::exp_,",
    ),
    Limitation(
        target=_ALL,
        case="add/int16_chain",
        reason="torch_dtype_to_scalar_type (backends/mlx/builder/op_helpers.py) has no int16, so "
        "nothing is delegated. MLXReinplacePass runs before partitioning and has already made "
        "add_ and abs_ of the nodes, for which the portable runtime has no kernels. Workaround: "
        "lower without `MLXReinplacePass`.",
        link=_SOURCE + "backends/mlx/passes.py",
        stage="run",
        error="the runtime has no kernel aten::abs_, aten::add_.Tensor,",
    ),
    Limitation(
        target="mlx:bf16",
        case="update_and_attend/out_fp16",
        reason="exec_update_and_attend (MLXInterpreter.h) attends in the dtype of the queries, "
        "rounds to it, and casts the result to out_dtype. Upstream's reference attends in float32 "
        "and rounds once. Workaround: cast the queries to out_dtype.",
        link=_SOURCE + "backends/mlx/runtime/MLXInterpreter.h",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    # Constants of several delegates
    Limitation(
        target=_ALL,
        case="mul/constant_of_two_delegates_twice",
        reason="duplicate_constant_node (exir/backend/canonical_partitioners) copies a constant "
        "for each user, not for each partition. The builder of the second delegate creates a "
        "slot for each copy and names slots by buffer, so one slot has no name and the program "
        "does not load. Workaround: a clone of the buffer for each part of the model.",
        link=_SOURCE + "exir/backend/canonical_partitioners/duplicate_constant_node_pass.py",
        stage="run",
        error="has no name",
    ),
    # Integers between the two
    Limitation(
        target=_ALL,
        case="clamp/below_number|slice_copy/from_number",
        reason="_clamp_handler and _slice_handler (backends/mlx/ops.py) leave a bound that is a "
        "symbolic integer, and a slice without an end, to the runtime. The integer becomes the "
        "only output of a delegate, and _get_new_signature (exir/lowered_backend_module.py) "
        "mistakes the only user of an output for its getitem: lowering raises an error.",
        link=_LOWERED,
        stage="lower",
        error="Invalid user",
    ),
    # Buffers
    Limitation(
        target=_ALL,
        case="index_copy/after_clone",
        reason="RemoveNoOpsPass takes every clone for superfluous, and IndexCopyHandler writes the "
        "buffer where it stands (docs/findings/mlx_clone_before_index_copy.py). Workaround: "
        "`self.kept * 1.0` for the clone.",
        link=_SOURCE + "backends/mlx/passes.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="index_copy/of_other_value",
        reason="IndexCopyHandler.maybe_create checks that the result is stored in a buffer, not "
        "that the operand is that buffer (docs/findings/mlx_index_copy_of_other.py). Workaround: "
        "`self.kept.copy_(hidden)`, then `self.kept.index_copy_(0, index, value)`.",
        link=_SOURCE + "backends/mlx/patterns.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="convolution/written_weight",
        reason="_emit_channel_last_weight (ops.py) makes a constant of any placeholder, also of a "
        "buffer that the program writes (docs/findings/mlx_written_convolution_weight.py). "
        "Workaround: `self.weight * 1.0`.",
        link=_SOURCE + "backends/mlx/ops.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="add/rows_of_full_table",
        reason="RemoveNoOpsPass compares symbolic shapes with ==, which asks whether the sizes of "
        "the example are equal (docs/findings/mlx_full_slice.py). Workaround: an example that is "
        "shorter than the table.",
        link=_SOURCE + "backends/mlx/passes.py",
        stage="run",
        error="cannot be broadcast",
    ),
    Limitation(
        target=_ALL,
        case="copy/before_is_output|copy/from_other|copy/exchanged",
        reason="A buffer is itself an output of the graph, or the new value of another buffer, "
        "because RemoveNoOpsPass (backends/mlx/passes.py) removed its copy or export made none. "
        "The partitioner tags it for the delegate, and _get_node_list_with_same_tag "
        "(exir/backend/backend_api.py) refuses users outside the delegate. Workaround: lower "
        "without `RemoveNoOpsPass` if the buffer is an output.",
        link=_SOURCE + "exir/backend/backend_api.py",
        stage="lower",
        error="is tagged with",
    ),
    Limitation(
        target=_ALL,
        case="copy/after_is_output",
        reason="_get_new_signature (exir/lowered_backend_module.py) refuses a delegate whose "
        "output is both returned and written to a buffer. Workaround: return a new value, such as "
        "`x * 1.0`.",
        link=_LOWERED,
        stage="lower",
        error="found to also contain a buffer mutation",
        shown_as=Status.UNSUPPORTED,
    ),
    Limitation(
        target="mlx:*",
        case="kv_cache_update/full",
        reason="RemoveNoOpsPass (backends/mlx/passes.py) removes the full slice that "
        "KVCache.update returns to keep its buffer from being an output as well. The builder "
        "then finds two slots for one value. Workaround: lower without `RemoveNoOpsPass`.",
        link=_SOURCE + "backends/mlx/passes.py",
        stage="lower",
        error="Slot for getitem already set to",
    ),
    Limitation(
        target="mlx:*",
        case="kv_cache_update/ring_attended_6_cells",
        reason="CSEPass._make_hashable (exir/passes/cse_pass.py) represents a node by its value "
        "number and a literal by itself, both as plain integers. arange(6) and arange(size) "
        "become one node where size has value number 6. Workaround: leave the pass out.",
        link="https://github.com/pytorch/executorch/pull/17752",
        stage="run",
        error="cannot be broadcast",
    ),
    Limitation(
        target="mlx:int*|mlx:mxfp8|mlx:nvfp4",
        case="quantized_embedding/one_token",
        reason="emit_quantized_gather (backends/mlx/builder/op_helpers.py) takes one row with a "
        "0-D index, which gives a vector, and mlx's dequantize takes matrices only. Workaround: "
        "index with one element, `index.reshape(1)`.",
        link=_SOURCE + "backends/mlx/builder/op_helpers.py",
        stage="run",
        error="(DequantizeNode)",
    ),
]
