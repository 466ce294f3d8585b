"""Limitations of MLX's handlers, which turn one operator into instructions.

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
        "so all dtypes share the constant that was created first. Here a float32 clamp gets "
        "bounds that were rounded to float16.",
        link=_HELPERS,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="lt/integers_and_fraction|eq/integers_and_fraction|pow/integers_to_fraction|"
        "remainder/integers_by_fraction|clamp/integers_between_fractions",
        reason="_make_binary_handler and _clamp_handler (ops.py) convert a Python number to the "
        "dtype of the tensor, where ATen promotes: beside integers 2.5 becomes 2 and 0.5 becomes "
        "0. Workaround: `x.to(torch.float32) < 2.5`.",
        link=_OPS,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="full/large_integer|full_like/large_integer",
        reason="FullNode and FullLikeNode store their value as a float, which resolve_float "
        "(runtime/MLXExecutor.h) narrows to float32: integers above 2^24 are rounded. "
        "Workaround: make the tensor a buffer of the module.",
        link=_SOURCE + "backends/mlx/runtime/MLXExecutor.h",
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="full/integers_as_index",
        reason="_make_full_handler (ops.py) creates float32 when aten.full has no dtype argument, "
        "where ATen takes the dtype of the value. The result cannot be used as an index. "
        "Workaround: pass `dtype=torch.int64`.",
        link=_OPS,
        stage="run",
        error="indices are mlx.core.float32",
    ),
    Limitation(
        target=_ALL,
        case="arange/from_fraction",
        reason="ARangeNode stores integers, and _arange_start_step_handler (ops.py) truncates "
        "start, end and step to integers: a range from 0.5 begins at 0. Workaround: compute the "
        "range from integers, `torch.arange(4) + 0.5`.",
        link=_OPS,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="mlx:bf16|mlx:fp16",
        case="mul/0d_by_number|div/floor_mode_0d",
        reason="ScalarToTensorPass (exir/passes/scalar_to_tensor_pass.py) turns a Python number "
        "into a 0-D float32 tensor. Beside a 0-D tensor of another dtype, that tensor takes part "
        "in type promotion, and RemoveMixedTypeOperators makes the result float32. Workaround: "
        "give the tensor a dimension, `x.reshape(1)`.",
        link=_SOURCE + "exir/passes/scalar_to_tensor_pass.py",
        stage="compare",
        error="dtype float32, expected",
        outcome=Status.MISMATCH,
    ),
    # Indices
    Limitation(
        target=_ALL,
        case="argmax/negated|argmax/minus_argmin|sort/indices_negated|topk/index_differences",
        reason="MLX returns indices as uint32, and the handlers of argmax, argmin, sort and topk "
        "(ops.py) do not convert them to int64. Arithmetic on indices wraps around below zero.",
        link=_OPS,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="index/separate_leading_slice",
        reason="mlx::gather puts the dimensions of the indices first. Where unindexed dimensions "
        "precede the indexed ones, _index_handler (ops.py) reshapes the result instead of "
        "transposing it, so values are permuted.",
        link="https://github.com/pytorch/executorch/pull/19177",
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="scatter_add/part_of_the_columns",
        reason="_scatter_add_handler (ops.py) emits mlx::scatter_add_axis, which broadcasts "
        "tensor, indices and updates in all other dimensions. ATen accepts indices that are "
        "smaller there. The runtime raises an error.",
        link=_OPS,
        stage="run",
        error="(ScatterAddNode): [broadcast_shapes]",
    ),
    Limitation(
        target=_ALL,
        case="scatter_add/one_of_the_rows",
        reason="_scatter_add_handler (ops.py) emits mlx::scatter_add_axis, which broadcasts "
        "indices of size 1 in the other dimensions: it changes all rows where ATen changes the "
        "first.",
        link=_OPS,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="repeat_interleave/flattened",
        reason="_repeat_interleave_handler (ops.py) repeats along dimension 0 when no dimension "
        "is given, where ATen flattens the tensor first. Workaround: "
        "`x.flatten().repeat_interleave(n, dim=0)`.",
        link=_OPS,
        stage="run",
        error="has shape (6, 4), the program plans (24,)",
    ),
    # Integers
    Limitation(
        target=_ALL,
        case="floor_divide/rest_then_multiplied|floor_divide/negative_then_multiplied|"
        "floor_divide/tensors_then_multiplied|div/floor_mode_then_multiplied|floor_divide/large",
        reason="exec_floor_divide (runtime/MLXInterpreter.h) divides integers with mlx::divide, "
        "which returns a float32 with a fraction, and subtracts 1 where the signs differ. "
        "Outputs of the delegate are converted back to integers; values used inside it keep the "
        "fraction, and integers above 2^24 are rounded.",
        link=_INTERPRETER,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL,
        case="floor_divide/as_index",
        reason="exec_floor_divide (runtime/MLXInterpreter.h) returns float32 for a quotient of "
        "integers, which mlx::take refuses as an index.",
        link=_INTERPRETER,
        stage="run",
        error="indices are mlx.core.float32",
    ),
    Limitation(
        target=_ALL,
        case="sum/int32_beyond_int32|prod/int32_beyond_int32|cumsum/int32_beyond_int32"
        "|cumsum/uint8_beyond_255",
        reason="MLX computes sums and products of integers in their dtype, ATen in int64. "
        "_make_reduction_handler and _cumsum_handler (ops.py) do not convert the operand, so "
        "results wrap around. Workaround: `x.to(torch.int64)` before it.",
        link=_OPS,
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    # Sizes
    Limitation(
        target=_ALL,
        case="argmax/dynamic_flattened",
        reason="_argmax_handler (ops.py) reads the number of elements from the example input "
        "instead of emitting SymSizeNode. Lowering reports nothing; the program flattens only "
        "tensors of the exported length and fails for others.",
        link=_OPS,
        stage="run",
        error="(ReshapeNode): [reshape] Cannot reshape array of size 6 into shape (10)",
    ),
    Limitation(
        target=_ALL,
        case="slice_scatter/to_the_dynamic_end",
        reason="_slice_scatter_handler (ops.py) reads a size from the example input instead of "
        "emitting SymSizeNode, which fixes the dimension. Lowering reports nothing; the program "
        "declares its output with the exported length, and ExecuTorch cannot resize it.",
        link=_OPS,
        stage="run",
        error="a call returned shape (2, 3) for a tensor that the program fixes to (2, 5)",
    ),
    Limitation(
        target=_ALL,
        case="topk/dynamic",
        reason="_topk_handler (ops.py) reads a size from the example input instead of emitting "
        "SymSizeNode, which fixes the dimension. Lowering reports nothing; the program accepts "
        "lengths up to the exported one, and ExecuTorch refuses longer inputs.",
        link=_OPS,
        stage="run",
        error="input 0 has shape (2, 12); the program takes at most 10 elements",
    ),
    Limitation(
        target=_ALL,
        case="mul/size_to_a_power",
        reason="_val_to_idtype (builder/slot_manager.py) has no type for a float computed from a "
        "size. MLXProgramBuilder also creates slots for unsupported nodes, so lowering raises an "
        "error instead of leaving the node to the runtime.",
        link=_SOURCE + "backends/mlx/builder/slot_manager.py",
        stage="lower",
        error="val_to_idtype: ToFloat",
    ),
]
