"""Limitations of Arm's quantizer and passes for the calls that integer targets get."""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import copy_limitation
from suites.ops.limitations import LIMITATIONS as OPS
from suites.overloads.limitations.native import NATIVE
from suites.overloads.limitations.tables import Row, make_limitations
from suites.overloads.limitations.tosa import TOSA
from suites.quant.limitations import LIMITATIONS as QUANT

_ARM = "https://github.com/pytorch/executorch/tree/v1.5.1/backends/arm"

# Another overload with the same cause on tosa:fp, and the overloads.
_AS_ON_FP = {
    "any.dims/float32": "all.dims",
    "amax.default/call_7": "amax.default/quantized_7 amin.default/quantized_1",
    "as_strided_copy.default/float32": "as_strided_copy.default",
    "constant_pad_nd.default/float32": "constant_pad_nd.default pad.default",
    "copy_.default/float32": "copy_.default fill.Scalar full_like.default ones_like.default "
    "zeros_like.default",
    "expand.default/float32": "expand.default expand_copy.default",
    "hardtanh.default/float32": "hardtanh.default hardtanh_.default",
    "max_pool2d.default/float32": "max_pool2d.default max_pool2d_with_indices.default",
    "narrow_copy.default/float32": "narrow_copy.default",
    "split.default/call_2": "split.default/quantized_2 split.default/quantized_5 "
    "split_with_sizes.default/quantized_1 split_with_sizes.default/quantized_3 "
    "split_with_sizes.default/quantized_4",
}
_ROWS: list[Row] = [
    ("avg_pool2d.default/quantized", "quantize", "not enough values to unpack",
     "DecomposeAvgPool2dPass unpacks two kernel sizes and strides; ATen accepts one number for "
     "both. Workaround: write both."),
    ("layer_norm.default/quantized", "quantize", "elements exceed the bound",
     "DecomposeLayerNormPass takes float32's machine epsilon where eps is left out; ATen's default "
     "is 1e-5. Workaround: write eps."),
    ("linear.default/quantized", "quantize", "Dimension out of range",
     "The quantizer asks for channels along dimension 1 of a weight that is a vector."),
    ("logit.default/quantized", "quantize", "is not finite",
     "torch's histogram observer refuses NaN, which logit returns for values outside of 0 to 1."),
    ("rsub.Scalar/quantized", "quantize", "elements exceed the bound",
     "ScalarsToAttributePass makes sub.Tensor of rsub.Scalar and drops alpha: silently wrong. "
     "Workaround: `other - alpha * x`."),
    ("upsample_bilinear2d.default/quantized", "run", "for a planned tensor of",
     "The indices of the decomposed upsampling are int64 to the program and int32 in the delegate, "
     "which returns them."),
    ("var.correction/quantized_4 var.dim/quantized_4", "quantize", "division by zero",
     "DecomposeVarPass multiplies by 1 / max(0, N - correction), N the product of the sizes of the "
     "dimensions that it is given: 1 for an empty list, which means all."),
]  # fmt: skip


def _globs(overloads: str) -> str:
    names = (name if "/" in name else f"{name}/quantized" for name in overloads.split())
    return "|".join(f"overloads/{name}" for name in names)


TOSA_INT: list[Limitation] = [
    *make_limitations("tosa:int", _ARM, _ROWS),
    copy_limitation(OPS, "tosa:int", "amax/all",
                    _globs("all.default amin.default/quantized_4 mean.default sum.default")),
    copy_limitation(OPS, "tosa:int", "var/all", _globs("var.dim/quantized_2"),
                    error="shape (1,), expected ()"),
    *(
        copy_limitation([*TOSA, *NATIVE], "tosa:fp", f"overloads/{known}", _globs(overloads),
                        target="tosa:int")
        for known, overloads in _AS_ON_FP.items()
    ),
    copy_limitation(QUANT, "tosa:int", "int_conv2d/same_even_kernel_relu",
                    _globs("conv1d.default conv2d.default/quantized_3 conv2d.default/quantized_5 "
                           "conv2d.padding conv3d.padding"),
                    error="for a planned tensor of"),
    copy_limitation(NATIVE, "xnnpack:fp32", "overloads/conv3d.default/float32",
                    _globs("convolution.default conv_transpose3d.input"), target="tosa:int"),
    Limitation(
        target="tosa:int",
        case=_globs("max.dim min.dim"),
        reason="max.dim and min.dim compute positions as well, and the quantizer refuses argmax.",
        link=_ARM,
        stage="quantize",
        error="Argmax is not supported by the arm_quantizer",
        shown_as=Status.UNSUPPORTED,
    ),
]  # fmt: skip
