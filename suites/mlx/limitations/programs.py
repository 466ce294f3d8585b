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
        reason="reinplace_pass (exir/passes/reinplace.py) does not count an output of the program "
        "as a later use. In the delegate nothing is overwritten for that, but MLXReinplacePass "
        "runs before partitioning and rewrites what is not delegated, too: here an output would "
        "be overwritten. The runtime refuses the program, as it has no kernel for aten.exp_.",
        link=_REINPLACE,
        stage="run",
        error="the runtime has no kernel aten::add_.Tensor, aten::exp_,",
    ),
    Limitation(
        target=_ALL,
        case="add/int16_chain",
        reason="torch_dtype_to_scalar_type (backends/mlx/builder/op_helpers.py) has no int16, so "
        "nothing is delegated; but MLXReinplacePass, which runs before partitioning, has made "
        "add_ and abs_ of it, for which the portable runtime has no kernels.",
        link=_SOURCE + "backends/mlx/passes.py",
        stage="run",
        error="the runtime has no kernel aten::abs_, aten::add_.Tensor,",
    ),
    # Constants of several delegates
    Limitation(
        target=_ALL,
        case="mul/constant_of_two_delegates_twice",
        reason="duplicate_constant_node (exir/backend/canonical_partitioners) copies a constant "
        "for each user, not for each partition. The builder of the second delegate makes a slot of "
        "each copy and names slots by buffer: one has no name, and cannot be loaded.",
        link=_SOURCE + "exir/backend/canonical_partitioners/duplicate_constant_node_pass.py",
        stage="run",
        error="has no name",
    ),
    # Integers between the two
    Limitation(
        target=_ALL,
        case="clamp/below_number|slice_copy/from_number",
        reason="_clamp_handler and _slice_handler (backends/mlx/ops.py) leave a bound that is an "
        "integer of the program, and a slice without end, to the runtime. The integer is then "
        "the only output of a delegate, and _get_new_signature (exir/lowered_backend_module.py) "
        "takes an output's only user for its getitem.",
        link=_LOWERED,
        stage="lower",
        error="Invalid user",
    ),
    # Buffers
    Limitation(
        target=_ALL,
        case="copy/before_is_output|copy/from_other|copy/exchanged",
        reason="RemoveNoOpsPass (backends/mlx/passes.py) drops the copy of a buffer, so the "
        "buffer itself is an output or becomes another buffer. The partitioner tags it for the "
        "delegate, and _get_node_list_with_same_tag (exir/backend/backend_api.py) refuses users "
        "outside.",
        link=_SOURCE + "exir/backend/backend_api.py",
        stage="lower",
        error="is tagged with",
    ),
    Limitation(
        target=_ALL,
        case="copy/after_is_output",
        reason="A buffer's new value that is also returned is one output with two meanings, "
        "which _get_new_signature (exir/lowered_backend_module.py) refuses once the buffer "
        "belongs to a delegate.",
        link=_LOWERED,
        stage="lower",
        error="found to also contain a buffer mutation",
        shown_as=Status.UNSUPPORTED,
    ),
    Limitation(
        target="mlx:*",
        case="kv_cache_update/full",
        reason="RemoveNoOpsPass (backends/mlx/passes.py) removes the full slice that the cache's "
        "update returns so that its buffer is not an output as well; the builder then finds two "
        "slots for one value.",
        link=_SOURCE + "backends/mlx/passes.py",
        stage="lower",
        error="Slot for getitem already set to",
    ),
    Limitation(
        target="mlx:*",
        case="kv_cache_update/ring_attended_6_cells",
        reason="CSEPass (exir/passes/cse_pass.py, _make_hashable) writes a node's value number and "
        "a literal as the same plain integer: arange(6) and arange(size) become one where that "
        "size is value number 6.",
        link="https://github.com/pytorch/executorch/pull/17752",
        stage="run",
        error="cannot be broadcast",
    ),
    Limitation(
        target="mlx:int4|mlx:mxfp8|mlx:nvfp4",
        case="quantized_embedding/one_token",
        reason="emit_quantized_gather (backends/mlx/builder/op_helpers.py) takes a row by a 0-D "
        "index, which has rank 1, and mlx's dequantize takes matrices only.",
        link=_SOURCE + "backends/mlx/builder/op_helpers.py",
        stage="run",
        error="(DequantizeNode)",
    ),
]
