"""Limitations of export, of the runtime's own kernels and of XNNPACK."""

from __future__ import annotations

from harness import Limitation
from suites.overloads.limitations.tables import Row, make_limitations, ops_limitation

_KERNELS = "https://github.com/pytorch/executorch/blob/v1.5.1/kernels/portable/cpu"
_XNNPACK = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack"

_EXIR = "https://github.com/pytorch/executorch/blob/v1.5.1/exir/verification/arg_validator.py"
_COLUMNS = (
    "torch's nonzero returns a transposed layout, which the program plans as the tensor's dim "
    "order; kernels refuse operands of different dim orders (copy_ops_util.cpp, "
    "tensor_util_portable.cpp). Workaround: `.contiguous()` behind nonzero."
)

_CROPS = (
    "A negative padding crops, and check_constant_pad_args (util/kernel_ops_util.cpp) refuses it. "
    "Workaround: slice the tensor."
)

_ROWS: list[Row] = [
    ("arange.default", "run", "Attempted to resize a static tensor",
     "op_arange.cpp rounds the number of elements in another way than export where the end is no "
     "whole number. Workaround: whole numbers."),
    ("conv3d.default conv3d.padding conv_transpose3d.input convolution.default", "run",
     "Expect input tensor to be 3-D or 4-D",
     "check_convolution_args (util/kernel_ops_util.cpp) accepts inputs of rank 3 and 4 only."),
    ("cumsum.default", "run", "dim_is_valid",
     "check_cumsum_args (util/kernel_ops_util.cpp) refuses every dimension of a tensor of rank 0; "
     "ATen accepts 0 and -1. Workaround: leave the cumsum out where the rank is 0."),
    ("add.Scalar/others", "run", "check_alpha_type",
     "op_add.cpp refuses a fractional alpha where self is an integer, although the number that is "
     "added makes the result a float."),
    ("constant_pad_nd.default/others pad.default pad.default/others", "run",
     "Padding values must be non-negative",
     _CROPS),
    ("remainder.Scalar/others remainder.Tensor/others", "compare", "elements exceed the bound",
     "remainder_override (op_remainder.cpp) takes the sign of the dividend for integers, and ATen "
     "the sign of the divisor: silently wrong. Workaround: `x - torch.div(x, y, "
     "rounding_mode='floor') * y`."),
    ("var.dim/others", "to_executorch", "0 in strides is not supported",
     "dim_order_from_stride (exir/tensor.py) refuses the strides of a mean over dimensions of an "
     "empty tensor."),
    ("narrow_copy.default narrow_copy.default/others", "run", "Aborted",
     "narrow_copy_out (op_narrow_copy.cpp) aborts the process for a negative start, which ATen "
     "accepts. Workaround: add the size to the start."),
]  # fmt: skip
_DELEGATE: list[Row] = [
    ("avg_pool1d.default max_pool2d.default prelu.default", "lower",
     "Attempting to convert non-NHWC compatible node to NHWC",
     "ChannelsLastTaggedReshapePass raises AssertionError for inputs of rank 3, which the "
     "partitioner accepts. Workaround: `x.unsqueeze(0)`."),
    ("hardtanh.default hardtanh_.default hardtanh.default/others hardtanh_.default/others",
     "lower", "tuple index out of range",
     "HardTanhVisitor (operators/op_hardtanh.py) reads max_val where min_val alone is given. "
     "Workaround: write both bounds."),
    ("linear.default", "run", "Propagating input shapes failed",
     "LinearConfig accepts a weight that is a vector, and XNNPACK refuses its shape at run time. "
     "Workaround: `x @ w`."),
    ("constant_pad_nd.default", "lower", "flatc",
     "StaticConstantPadVisitor (operators/op_static_constant_pad.py) writes the fill value True to "
     "the payload as it is, and flatc refuses `true` for a float. Workaround: `value=1.0`."),
]  # fmt: skip

_SIZES = [
    Limitation(
        target="xnnpack:fp32",
        case=cases,
        reason=reason,
        link=link,
        stage=stage,
        error=error,
    )
    for cases, stage, error, link, reason in [
        ("sizes/split", "lower", "Could not extract specialized integer", _EXIR,
         "run_node of the edge dialect's verifier (exir/verification/arg_validator.py) executes "
         "split_with_sizes_copy without hints, which needs its sizes as numbers. Workaround: two "
         "slices."),
        ("sizes/cat_nonzero", "run", "tensors_have_same_dim_order", _KERNELS,
         _COLUMNS),
        ("sizes/nonzero|sizes/index_by_nonzero", "run", "have different dim orders", _KERNELS,
         _COLUMNS),
    ]
]  # fmt: skip

NATIVE: list[Limitation] = [
    *_SIZES,
    ops_limitation("xnnpack:fp32", "gelu/tanh", "gelu.default gelu_.default"),
    *make_limitations("xnnpack:fp32", _XNNPACK, _DELEGATE),
    *make_limitations("xnnpack:fp32|portable:fp32", _KERNELS, _ROWS),
    *make_limitations("portable:fp32", _KERNELS, [
        ("constant_pad_nd.default", "run", "Padding values must be non-negative", _CROPS),
    ]),
    *(
        entry
        for target in ("xnnpack:fp32|portable:fp32", "tosa:fp", "mlx:fp32")
        for entry in make_limitations(
            target,
            "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_refs/__init__.py",
            [
                ("linspace.Scalar_Tensor linspace.Tensor_Scalar linspace.Tensor_Tensor", "lower",
                 "device() received an invalid combination",
                 "The decomposition of linspace with tensor bounds calls torch.device(None). "
                 "Workaround: numbers as bounds.")
            ],
        )
    ),
    *make_limitations("tosa:fp", _KERNELS, [
        ("narrow_copy.default", "run", "Aborted",
         "narrow_copy_out (op_narrow_copy.cpp) aborts the process for a negative start, which ATen "
         "accepts. Workaround: add the size to the start."),
    ]),
]  # fmt: skip
