"""Limitations of Arm's passes and of TOSA's reference model."""

from __future__ import annotations

from dataclasses import replace

from harness import Limitation
from suites.overloads.limitations.tables import Row, make_limitations, ops_limitation

_ARM = "https://github.com/pytorch/executorch/tree/v1.5.1/backends/arm"
_BOUND = "elements exceed the bound"

_ROWS: list[Row] = [
    ("add.Scalar add_.Scalar sub.Scalar sub_.Scalar", "lower", "takes 2 positional argument",
     "ReplaceScalarWithTensorArgPass (transforms/replace_scalar_with_tensor.py) passes the "
     "positional alpha of add.Scalar and sub.Scalar on to the Tensor overload, whose alpha is a "
     "keyword. Workaround: `x + alpha * number`."),
    ("all.default all.dim all.dims logical_not.default logical_not_.default", "lower",
     "LOGICAL_NOT requires bool",
     "TOSA_PRO_FP_SupportList has logical operators for any dtype, and no pass casts to bool. "
     "Workaround: `x != 0`."),
    ("any.default any.dim", "lower", "REDUCE_ANY requires bool",
     "The FP list accepts any() of floats, and no pass casts to bool. Workaround: `x != 0`."),
    ("any.dims", "lower", "aten::any() Expected a value of type 'int'",
     "DecomposeAnyPass reads a dimension of None, which means all, as one dimension. Workaround: "
     "`x.any()`."),
    ("logical_and.default logical_or.default logical_xor.default", "lower",
     "Unsupported dtype torch.float32 for LOGICAL",
     "The FP list accepts logical operators of floats, and no pass casts to bool. Workaround: "
     "`x != 0`."),
    ("_native_batch_norm_legit_no_training.default", "lower", "data must be a sequence",
     "FuseBatchNorm2dPass reads mean and variance as buffers of the module and raises TypeError "
     "where they are inputs of the program. Workaround: make them buffers."),
    ("arange.default arange.start arange.start_step eye.default scalar_tensor.default "
     "zeros.default", "run", "the delegate returned",
     "A creation of int64 numbers becomes an int32 TOSA constant, which the delegate returns for "
     "an output that the program plans as int64. Workaround: ask for int32."),
    ("cumsum.default prod.dim_int sum.dim_IntList/call_4", "run", "the delegate returned",
     "The pass drops the argument dtype: the delegate returns float32 for an output that the "
     "program plans as float16. Workaround: cast the input."),
    ("logsumexp.default amax.default/call_7 amin.default/call_1", "run",
     "the delegate returned",
     "An empty list of dimensions means all of them to ATen; ConvertMinMaxPass unrolls none. "
     "Workaround: name the dimensions."),
    ("native_group_norm.default native_layer_norm.default", "run", "for a planned tensor of",
     "The program plans the mean and the reciprocal standard deviation, and the delegate returns "
     "the normalized tensor in their place."),
    ("as_strided.default as_strided_copy.default", "lower", "is invalid for input of size 12",
     "DecomposeAsStridedCopyPass replaces as_strided by a view, also where the view has fewer "
     "elements than its input. Workaround: slice the tensor first."),
    ("avg_pool1d.default avg_pool2d.default", "lower", "not enough values to unpack",
     "DecomposeAvgPool2dPass unpacks two kernel sizes and strides and four sizes of the input; "
     "ATen accepts one number for both, and inputs without a batch. Workaround: write both."),
    ("max_pool2d.default max_pool2d_with_indices.default", "lower", "not enough values to unpack",
     "MaxPool2dSupported (operator_support/pool_2d_support.py) unpacks two paddings; ATen accepts "
     "one number for both. Workaround: write both."),
    ("constant_pad_nd.default pad.default", "lower", "Expected padding values to be non-negative",
     "A negative padding crops, and rewrite_pad.py passes it on to TOSA's PAD. Workaround: "
     "slice the tensor."),
    ("clamp.Tensor", "lower", "Unsupported dtype torch.bool for MAXIMUM",
     "A clamp with bounds of bool becomes a MAXIMUM of bool tensors, which TOSA does not have. "
     "Workaround: logical operators."),
    ("max.other maximum.default remainder.Tensor", "lower", "Expected matching dtypes",
     "ATen promotes operands of different dtypes, here int32. No Arm pass inserts the CAST. "
     "Workaround: convert the operand, `.to(x.dtype)`."),
    ("mean.default mean.dim/call_2", "lower", "Expected matching dtypes",
     "DecomposeMeanDimPass multiplies a float16 sum by a float32 number where the argument dtype "
     "asks for float16. Workaround: cast the input."),
    ("copy.default copy_.default fill.Scalar fill.Tensor full_like.default ones_like.default "
     "zeros_like.default", "run", "TOSA graph has",
     "The delegate's graph loses inputs that its result does not depend on, and the program still "
     "passes them (the same cause as suites/ops has for fill)."),
    ("expand.default expand_copy.default", "lower", "TILE multiples must be positive",
     "ConvertExpandCopyToRepeatPass makes a TILE of multiple 0 of an expansion to size 0, which "
     "TOSA does not have."),
    ("floor_divide.Scalar", "lower", "could not find kernel for tosa.RESHAPE",
     "The pass that decomposes floor_divide evaluates a constant after the rewriting to TOSA's "
     "dialect, whose operators have no kernels."),
    ("hardtanh.default hardtanh_.default", "lower", "tuple index out of range",
     "ConvertToClampPass and FuseQuantizedActivationPass read min_val and max_val from the "
     "arguments, and export leaves defaults out. Workaround: write both bounds."),
    ("linear.default", "lower", "tuple index out of range",
     "DecomposeLinearPass reads two sizes of the weight; ATen accepts a vector."),
    ("linspace.default", "run", "no kernel aten::linspace.out",
     "The FP list claims linspace, so that nothing decomposes it, and the partitioner then "
     "leaves it to a runtime without the kernel."),
    ("std.correction std.dim var.correction/call_4 var.correction/call_5 var.dim/call_4", "lower",
     "division by zero",
     "DecomposeVarPass multiplies by 1 / max(0, N - correction), N the product of the sizes of the "
     "dimensions that it is given: 1 for an empty list, which means all, and for rank 0."),
    ("split_with_sizes_copy.default split.default/call_2 split.default/call_5 "
     "split_with_sizes.default/call_1 split_with_sizes.default/call_3 "
     "split_with_sizes.default/call_4", "lower", "Expected start + size values between",
     "ConvertSplitToSlicePass makes a slice of size 0, which TOSA does not have."),
]  # fmt: skip

_ROUNDING: list[Row] = [
    ("asinh.default asinh_.default", "compare", _BOUND,
     "DecomposeAsinhPass computes log(x + sqrt(x * x + 1)), which cancels for negative x and near "
     "0. Workaround: `x.sign() * x.abs().asinh()`."),
    ("tanh_.default", "compare", _BOUND,
     "Arm's reference model computes TANH in float32 with an absolute error of 1e-7, which is many "
     "units in the last place for inputs near 0."),
    ("sinh_.default", "compare", _BOUND,
     "DecomposeSinhPass computes (exp(x) - exp(-x)) / 2, which cancels near 0."),
]  # fmt: skip

TOSA: list[Limitation] = [
    ops_limitation("tosa:fp", "asin/2d", "acos.default acos_.default asin.default asin_.default"),
    ops_limitation("tosa:fp", "atan/2d", "atan.default atan_.default"),
    ops_limitation("tosa:fp", "atanh/near_zero", "atanh.default atanh_.default"),
    ops_limitation("tosa:fp", "log1p/3d", "log1p.default log1p_.default"),
    ops_limitation("tosa:fp", "expm1/3d",
                   "expm1.default expm1_.default celu.default elu.default selu.default"),
    ops_limitation("tosa:fp", "convolution/transposed_3d", "conv_transpose3d.input"),
    ops_limitation("tosa:fp", "amax/all",
                   "matmul.default sum.default amin.default/call_4 sum.dim_IntList/call_1"),
    *make_limitations("tosa:fp", _ARM, _ROWS),
    *(replace(entry, seed=0) for entry in make_limitations("tosa:fp", _ARM, _ROUNDING)),
]  # fmt: skip
