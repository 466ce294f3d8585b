"""Limitations where one operator becomes instructions: dtypes, literals, sizes.

The handlers are in ``backends/mlx/ops.py`` of executorch.
"""

from __future__ import annotations

from harness import Limitation, Status

_ALL = "mlx:*"
_SOURCE = "https://github.com/pytorch/executorch/blob/v1.5.1/"
_OPS = _SOURCE + "backends/mlx/ops.py"
_HELPERS = _SOURCE + "backends/mlx/builder/op_helpers.py"
_INTERPRETER = _SOURCE + "backends/mlx/runtime/MLXInterpreter.h"
_WRONG = "elements exceed the bound"

HANDLERS: list[Limitation] = [
    # Literals
    Limitation(
        target="mlx:fp32",
        case="clamp/one_bound_two_dtypes",
        reason="emit_lifted_constant (builder/op_helpers.py) names a constant by its value alone, "
        "so the first dtype it is made in serves all: here the float32 clamp gets its bounds "
        "rounded to float16.",
        link=_HELPERS,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="lt/integers_and_fraction|eq/integers_and_fraction|pow/integers_to_fraction|"
        "remainder/integers_by_fraction|clamp/integers_between_fractions",
        reason="_make_binary_handler and _clamp_handler make a Python number a constant of the "
        "tensor's dtype: beside integers 2.5 becomes 2 and 0.5 becomes 0, where ATen promotes.",
        link=_OPS,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="full/large_integer|full_like/large_integer",
        reason="FullNode and FullLikeNode hold their value as a float, and resolve_float "
        "(runtime/MLXExecutor.h) narrows it to float32: integers above 2^24 are rounded.",
        link=_SOURCE + "backends/mlx/runtime/MLXExecutor.h",
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="full/integers_as_index",
        reason="_make_full_handler makes a tensor without a dtype argument float32, where "
        "aten.full takes the dtype of the value: integers cannot be used as indices then.",
        link=_OPS,
        stage="run",
        error="indices are mlx.core.float32",
    ),
    Limitation(
        target=_ALL,
        case="arange/from_fraction",
        reason="ARangeNode has integers only, and _arange_start_step_handler truncates start, end "
        "and step to them: a range from 0.5 begins at 0.",
        link=_OPS,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="mlx:bf16|mlx:fp16",
        case="mul/0d_by_number|div/floor_mode_0d",
        reason="ScalarToTensorPass (exir/passes/scalar_to_tensor_pass.py) turns a Python number "
        "into a 0-D float32 tensor; beside a 0-D tensor of another dtype it is no longer the "
        "weaker operand, and RemoveMixedTypeOperators promotes the result to float32.",
        link=_SOURCE + "exir/passes/scalar_to_tensor_pass.py",
        stage="compare",
        error="dtype float32, expected",
        outcome=Status.MISMATCH,
    ),
    # Indices
    Limitation(
        target=_ALL,
        case="argmax/negated|argmax/minus_argmin|sort/indices_negated|topk/index_differences",
        reason="MLX's indices are uint32. The handlers of argmax, argmin, sort and topk emit no "
        "conversion to int64, so what the graph computes with them wraps around below zero.",
        link=_OPS,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="index/separate_leading_slice",
        reason="mlx::gather puts the dimensions of the indices first. When unindexed dimensions "
        "precede the indexed ones, _index_handler reshapes its result where a transposition is "
        "needed: the values are permuted.",
        link="https://github.com/pytorch/executorch/pull/19177",
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="scatter_add/part_of_the_columns",
        reason="_scatter_add_handler emits mlx::scatter_add_axis, which broadcasts tensor, indices "
        "and updates beside the axis. ATen takes indices of a smaller size there.",
        link=_OPS,
        stage="run",
        error="(ScatterAddNode): [broadcast_shapes]",
    ),
    Limitation(
        target=_ALL,
        case="scatter_add/one_of_the_rows",
        reason="_scatter_add_handler emits mlx::scatter_add_axis, which broadcasts indices of "
        "size 1 beside the axis: all rows are changed, where ATen changes the first.",
        link=_OPS,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="repeat_interleave/flattened",
        reason="_repeat_interleave_handler takes dim 0 when there is none, where ATen flattens.",
        link=_OPS,
        stage="run",
        error="has shape (6, 4), the program plans (24,)",
    ),
    # Integers
    Limitation(
        target=_ALL,
        case="floor_divide/rest_then_multiplied|floor_divide/negative_then_multiplied|"
        "floor_divide/tensors_then_multiplied|div/floor_mode_then_multiplied|floor_divide/large",
        reason="exec_floor_divide (runtime/MLXInterpreter.h) computes the quotient of integers "
        "with mlx::divide, which makes it a float32 with a fraction, and subtracts 1 from it "
        "where the signs differ. Only an output is converted back and loses the fraction, but "
        "not the rounding of integers above 2^24.",
        link=_INTERPRETER,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="floor_divide/as_index",
        reason="exec_floor_divide (runtime/MLXInterpreter.h) makes the quotient of integers a "
        "float32, which mlx::take refuses as index.",
        link=_INTERPRETER,
        stage="run",
        error="indices are mlx.core.float32",
    ),
    Limitation(
        target=_ALL,
        case="sum/int32_beyond_int32|prod/int32_beyond_int32|cumsum/int32_beyond_int32",
        reason="MLX's sums and products of int32 are int32, ATen's int64. "
        "_make_reduction_handler and _cumsum_handler emit no conversion, so they wrap around.",
        link=_OPS,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    # Sizes
    Limitation(
        target=_ALL,
        case="argmax/dynamic_flattened",
        reason="_argmax_handler reads the number of elements from the example instead of emitting "
        "SymSizeNode: the program flattens tensors of the exported length only, without an error "
        "when it is lowered.",
        link=_OPS,
        stage="run",
        error="(ReshapeNode): [reshape] Cannot reshape array of size 6 into shape (10)",
    ),
    Limitation(
        target=_ALL,
        case="slice_scatter/to_the_dynamic_end",
        reason="_slice_scatter_handler reads a size from the example instead of emitting "
        "SymSizeNode. That specialises the dimension: the program declares its output with the "
        "exported length, which ExecuTorch cannot resize to another, without an error when it is "
        "lowered.",
        link=_OPS,
        stage="run",
        error="a call returned shape (2, 3) for a tensor that the program fixes to (2, 5)",
    ),
    Limitation(
        target=_ALL,
        case="topk/dynamic",
        reason="_topk_handler reads a size from the example instead of emitting SymSizeNode. That "
        "specialises the dimension, without an error when it is lowered: the program runs for "
        "lengths up to the exported one, and ExecuTorch refuses to resize its input to a longer "
        "one.",
        link=_OPS,
        stage="run",
        error="input 0 has shape (2, 12); the program takes at most 10 elements",
    ),
    Limitation(
        target=_ALL,
        case="mul/size_to_a_power",
        reason="A float computed from a size is outside what _val_to_idtype "
        "(builder/slot_manager.py) knows. MLXProgramBuilder makes slots for unsupported nodes, "
        "too, so that lowering ends instead of leaving the node to the runtime.",
        link=_SOURCE + "backends/mlx/builder/slot_manager.py",
        stage="lower",
        error="val_to_idtype: ToFloat",
    ),
]
