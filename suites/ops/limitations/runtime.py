"""Limitations in the ExecuTorch export flow, runtime and portable kernels.

Fallback nodes of every backend run on the same kernels, so an entry names all affected targets.
"""

from __future__ import annotations

from harness import Limitation, Status

_ALL = "portable:*|xnnpack:*|tosa:*"
_NATIVE = "portable:*|xnnpack:*"
_PORTABLE = "portable:*"
_SOURCE = "https://github.com/pytorch/executorch/blob/v1.5.1/"

RUNTIME: list[Limitation] = [
    # Export flow
    Limitation(
        target=_ALL + "|null:*|cortex_m:*",
        case="_to_copy/transposed|clone/of_transposed",
        reason="MemoryFormatOpsPass turns preserve_format into the dim order of the input, and "
        "get_memory_format (exir/dim_order_utils.py) knows contiguous and 4-D channels-last "
        "only, so lowering a conversion or clone of a transposed tensor raises an error. "
        "Workaround: pass `memory_format=torch.contiguous_format`.",
        link=_SOURCE + "exir/dim_order_utils.py",
        stage="lower",
        error="Failed to map a given dim_order: [1, 0]",
    ),
    Limitation(
        target="portable:*|xnnpack:*|tosa:fp|null:*",
        case="scaled_dot_product_attention/flattened",
        reason="to_edge_transform_and_lower decomposes in two steps. The first turns flatten into "
        "a view, because attention's result is contiguous; the second decomposes attention into "
        "operators whose result has other strides, for which no such view exists. Workaround: "
        "`.clone(memory_format=torch.contiguous_format)` between them, or `to_edge` and "
        "`to_backend`.",
        link=_SOURCE + "exir/program/_program.py",
        stage="lower",
        error="Cannot view a tensor",
    ),
    Limitation(
        target="portable:*|xnnpack:fp32|tosa:fp|mlx:*|metal:*|null:*|openvino:fp32|vgf:fp"
        "|cortex_m:*",
        case="weight_norm/vector",
        reason="PyTorch's decomposition of _weight_norm_interface reduces all dimensions but one. "
        "A vector has no others, and a norm over an empty list of dimensions is that of all "
        "elements: weight_norm of a vector is divided by the norm of the vector, not by each "
        "element (docs/findings.md). Workaround: "
        '`torch.nn.utils.parametrize.remove_parametrizations(layer, "weight")` before the export.',
        link="https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_decomp/decompositions.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="coreml:*",
        case="weight_norm/vector",
        reason="PyTorch's decomposition of _weight_norm_interface makes a norm over an empty list "
        "of dimensions for a vector (docs/findings.md), and coremltools refuses that.",
        link="https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_decomp/decompositions.py",
        stage="lower",
        error='Op "reduce_l2_norm_',
    ),
    # Python bindings
    Limitation(
        target=_NATIVE,
        case="tanh/transposed|add/transposed|convolution/2d_transposed_input|mm/transposed_inputs"
        "|linear/transposed_input|bmm/transposed_input|native_layer_norm/transposed_input"
        "|_softmax/transposed|sum/transposed|argmax/transposed|view_copy/of_transposed"
        "|floor/transposed",
        reason="The program declares its input with the dim order of the transposed example, but "
        "`execute` in extension/pybindings/pybindings.cpp converts contiguous and 4-D "
        "channels-last tensors only, so Python cannot pass an input in the layout of the "
        "example. Workaround: `x.contiguous()` when the model is exported and when it is run.",
        link=_SOURCE + "extension/pybindings/pybindings.cpp",
        stage="run",
        error="should be contiguous or channels-last",
    ),
    Limitation(
        target="tosa:*",
        case="argmax/transposed|view_copy/of_transposed",
        reason="Nothing is delegated, so the program runs natively. The program declares its "
        "input transposed, but `execute` in extension/pybindings/pybindings.cpp converts "
        "contiguous and 4-D channels-last tensors only. Workaround: `x.contiguous()` when the "
        "model is exported and when it is run.",
        link=_SOURCE + "extension/pybindings/pybindings.cpp",
        stage="run",
        error="should be contiguous or channels-last",
    ),
    # Kernels that refuse what the exporter emits
    Limitation(
        target=_NATIVE + "|cortex_m:*",
        case="convolution/3d|convolution/3d_stride_padding|norm_behind/conv3d",
        reason="check_convolution_args (kernels/portable/cpu/util/kernel_ops_util.cpp) accepts "
        "inputs of rank 3 and 4 only, so a 3-D convolution can be lowered but not executed.",
        link="https://github.com/pytorch/executorch/issues/11704",
        stage="run",
        error="method->execute() failed with error 0x12",
    ),
    Limitation(
        target=_ALL + "|cortex_m:*",
        case="convolution/transposed_3d",
        reason="No backend delegates a transposed 3-D convolution, and the portable kernel "
        "refuses it: check_convolution_args (kernels/portable/cpu/util/kernel_ops_util.cpp) "
        "accepts inputs of rank 3 and 4 only.",
        link="https://github.com/pytorch/executorch/issues/11704",
        stage="run",
        error="method->execute() failed with error 0x12",
    ),
    Limitation(
        target=_NATIVE,
        case="constant_pad_nd/negative_crops",
        reason="check_constant_pad_args (kernels/portable/cpu/util/kernel_ops_util.cpp) refuses "
        "negative padding, which crops in ATen. Workaround: slice the tensor instead.",
        link="https://github.com/pytorch/executorch/pull/18018",
        stage="run",
        error="method->execute() failed with error 0x12",
    ),
    Limitation(
        target=_PORTABLE,
        case="add/channels_last_broadcast|mul/channels_last_mixed|_to_copy/to_channels_last",
        reason="op_add.cpp and op_mul.cpp require one dim order for all operands "
        "(tensors_have_same_dim_order), but the exporter gives the other operand the default "
        "one: a contiguous tensor, a bias of shape (1, C, 1, 1), or the 0-D tensor that a Python "
        "number becomes. Even x * 2 fails for channels-last x. Workaround: `.contiguous()` "
        "before it.",
        link="https://github.com/pytorch/executorch/issues/12914",
        stage="run",
        error="method->execute() failed with error 0x12",
    ),
    Limitation(
        target=_PORTABLE,
        case="convolution/2d_channels_last_weight",
        reason="op_convolution.cpp requires one dim order for all operands. Workaround: a "
        "channels-last input as well, or a contiguous weight.",
        link=_SOURCE + "kernels/portable/cpu/op_convolution.cpp",
        stage="run",
        error="method->execute() failed with error 0x12",
    ),
    Limitation(
        target=_PORTABLE,
        case="permute_copy/channels_last_input|slice_copy/channels_last",
        reason="The program declares a contiguous result, as the functional copy operator returns "
        "it, but op_permute_copy.cpp and op_slice_copy.cpp require the dim order of the input. "
        "Workaround: `.contiguous()` before it.",
        link="https://github.com/pytorch/executorch/issues/11086",
        stage="run",
        error="method->execute() failed with error 0x12",
    ),
    Limitation(
        target=_NATIVE,
        case="full_like/channels_last|native_group_norm/channels_last",
        reason="op_full_like.cpp and op_native_group_norm.cpp refuse an input that is not in the "
        "default dim order (tensor_is_default_dim_order). Workaround: `.contiguous()` before it.",
        link="https://github.com/pytorch/executorch/issues/12914",
        stage="run",
        error="method->execute() failed with error 0x12",
    ),
    Limitation(
        target=_PORTABLE,
        case="_native_batch_norm_legit_no_training/2d_channels_last",
        reason="op_native_batch_norm.cpp refuses an input that is not in the default dim order "
        "(is_contiguous_dim_order). Workaround: `.contiguous()` before it.",
        link="https://github.com/pytorch/executorch/issues/12914",
        stage="run",
        error="method->execute() failed with error 0x12",
    ),
    # Kernels that compute wrong values
    Limitation(
        target=_PORTABLE,
        case="cat/channels_last|constant_pad_nd/channels_last",
        reason="op_cat.cpp and op_constant_pad_nd.cpp copy blocks of getTrailingDims elements as "
        "if memory were row-major, and label the result channels-last: values are silently "
        "permuted. Workaround: `.contiguous()` before it.",
        link="https://github.com/pytorch/executorch/pull/21865",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_NATIVE,
        case="cat/promotes",
        reason="cat_out (kernels/portable/cpu/op_cat.cpp) copies bytes whenever input and output "
        "elements have the same size, so the bits of an int32 are read as a float32. Workaround: "
        "convert the integers first.",
        link=_SOURCE + "kernels/portable/cpu/op_cat.cpp",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=f"{_NATIVE}|tosa:fp|cortex_m:*",
        case="remainder/int64",
        reason="remainder_override for integers (kernels/portable/cpu/util/math_util.h) is C's %, "
        "whose result has the sign of the dividend; the result of torch.remainder has the sign "
        'of the divisor. Workaround: `a - b * torch.div(a, b, rounding_mode="floor")` for '
        "integers.",
        link=_SOURCE + "kernels/portable/cpu/util/math_util.h",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_NATIVE,
        case="div/floor_of_any",
        reason="floor_divide (kernels/portable/cpu/util/math_util.h) computes (a - fmod(a, b)) / "
        "b, minus 1 where the signs differ, and rounds the division: results are up to an ULP "
        "off a whole number. ATen's are whole. Workaround: `torch.floor(a / b)`.",
        link=_SOURCE + "kernels/portable/cpu/util/math_util.h",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_ALL + "|cortex_m:*",
        case="nonzero/2d",
        reason="ATen's nonzero is column-major and the program declares dim order (1, 0), but "
        "op_nonzero.cpp writes row by row without checking the dim order of its output. "
        "Workaround: an application may read the result's memory row by row, against its strides.",
        link=_SOURCE + "kernels/portable/cpu/op_nonzero.cpp",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_NATIVE,
        case="native_layer_norm/large_mean",
        reason="layer_norm_scalar (kernels/portable/cpu/util/normalization_ops_util.h; the "
        "optimized kernel also calls it below 256 elements) computes the variance as E[x^2] - "
        "E[x]^2 in float32, which cancels when the mean is large: the error is 60 times eager's "
        "here.",
        link=_SOURCE + "kernels/portable/cpu/util/normalization_ops_util.h",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_PORTABLE,
        case="view_copy/channels_last_read",
        reason="ReplaceViewCopyWithViewPass gives a view the storage of its base and contiguous "
        "strides, and checks the size and the dtype of both, not the dim order: what "
        "reads the view of a channels-last tensor gets permuted values. Workaround: "
        "`.contiguous()` before the view.",
        link=_SOURCE + "exir/passes/replace_view_copy_with_view_pass.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_NATIVE,
        case="unsqueeze_copy/channels_last",
        reason="unsqueeze_copy_out (kernels/portable/cpu/op_unsqueeze_copy.cpp) copies the bytes "
        "of its input and does not check the dim orders: values of a channels-last tensor "
        "are permuted. Workaround: `.contiguous()` before it.",
        link=_SOURCE + "kernels/portable/cpu/op_unsqueeze_copy.cpp",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_NATIVE,
        case="sub/fp64_number",
        reason="ScalarToTensorPass makes a Python number a tensor of float32, whatever the other "
        "operand is: 1700000050.0 becomes 1700000000. Workaround: a buffer of the "
        "operand's dtype.",
        link=_SOURCE + "exir/passes/scalar_to_tensor_pass.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_NATIVE + "|mlx:*",
        case="add/int32_scalar_number|mul/fp16_scalar_number",
        reason="ScalarToTensorPass makes a Python number a tensor of float32 or int64. Beside a "
        "tensor without dimensions it decides the dtype of the result, where a number "
        "would not. Workaround: a buffer of the operand's dtype.",
        link=_SOURCE + "exir/passes/scalar_to_tensor_pass.py",
        stage="compare",
        error="expected ",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_NATIVE,
        case="add/dynamic_remainder_of_negative",
        reason="executorch_prim::mod (kernels/prim_ops/register_prim_ops.cpp) is C's %, whose "
        "result has the sign of the dividend: a remainder of a negative number that is "
        "computed from sizes is negative. Workaround: keep the dividend positive, such as "
        "`(n + 1) % 4`.",
        link=_SOURCE + "kernels/prim_ops/register_prim_ops.cpp",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_NATIVE,
        case="constant_pad_nd/dynamic_to_multiple",
        reason="executorch_prim::mod (kernels/prim_ops/register_prim_ops.cpp) is C's %: the "
        "padding is negative, and the kernel refuses it. Workaround: keep the dividend "
        "positive, such as `(8 - n % 8) % 8`.",
        link=_SOURCE + "kernels/prim_ops/register_prim_ops.cpp",
        stage="run",
        error="method->execute() failed with error 0x12",
    ),
    Limitation(
        target=_NATIVE,
        case="pow/int64_large|pow/int32_wraps",
        reason="pow (kernels/portable/cpu/op_pow.cpp) computes powers of integers with std::pow "
        "of doubles: large ones are rounded, and those beyond the dtype do not wrap. "
        "Workaround: products, such as `x * x * x`.",
        link=_SOURCE + "kernels/portable/cpu/op_pow.cpp",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_NATIVE,
        case="div/floor_by_zero",
        reason="floor_divide (kernels/portable/cpu/util/math_util.h) returns an infinity for any "
        "division by zero, also for 0 / 0 and NaN / 0. Workaround: `torch.floor(a / b)`.",
        link=_SOURCE + "kernels/portable/cpu/util/math_util.h",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_NATIVE,
        case="addmm/beta_zero_ignores_nan",
        reason="addmm_out (kernels/portable/cpu/op_addmm.cpp) multiplies the bias by a beta of "
        "0, which keeps NaN and infinities; ATen ignores the bias. Workaround: "
        "`torch.mm(x, y)`.",
        link=_SOURCE + "kernels/portable/cpu/op_addmm.cpp",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_NATIVE + "|mlx:*",
        case="cat/empty_decides_dtype",
        reason="PruneEmptyTensorsPass removes empty tensors from a cat, although the dtype of "
        "one may decide that of the result. Workaround: convert the other tensors first.",
        link=_SOURCE + "exir/passes/prune_empty_tensors_pass.py",
        stage="compare",
        error="dtype int64, expected float32",
        outcome=Status.MISMATCH,
    ),
]
