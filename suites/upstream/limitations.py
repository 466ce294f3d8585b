"""Limitations of upstream's programs.

Most have the same cause as a case of another suite and copy its limitation, so that each cause is
described once.
"""

from __future__ import annotations

from dataclasses import replace

from harness import Limitation, Status
from suites.known import copy_limitation, copy_to_vgf, variants
from suites.metal.limitations import LIMITATIONS as METAL
from suites.models.limitations import LIMITATIONS as MODELS
from suites.ops.limitations import LIMITATIONS as OPS

_ALL = "portable:*|xnnpack:*|tosa:*|mlx:*|metal:*|coreml:*|openvino:*"
_SKIPS = "Upstream's own runner skips such programs as bad tests."
_FLOOR = (
    "floor(a / b), which is infinite for an infinite a. ATen and Python compute (a - a % b) / b, "
    "and the remainder of infinity is NaN."
)


def _of(operator: str, names: str) -> str:
    return variants(f"upstream/{operator}", names)


def _as_ours(target: str, case: str, cases: str) -> Limitation:
    return copy_limitation(OPS, target, case, cases)


def _seeded(entry: Limitation) -> Limitation:
    """Restrict a limitation to the seed with which it shows."""
    return replace(entry, seed=0)


_EVERYWHERE = [
    Limitation(
        target=_ALL,
        case=cases,
        reason=f"{what}, so eager PyTorch refuses the program. {_SKIPS}",
        stage="build",
        error=error,
        shown_as=Status.UNSUPPORTED,
    )
    for cases, what, error in [
        (
            _of("linear", "batch_sizes_* dtype leading_batch_* no_bias_0 no_bias_dtype"),
            "The number of input features differs from the layer's",
            "shapes cannot be multiplied",
        ),
        (
            "|".join(_of(pool, "padding_1") for pool in ("avgpool1d", "avgpool2d", "maxpool2d")),
            "The padding is more than half of the kernel",
            "pad should be at most half of effective kernel size",
        ),
        (
            _of("maxpool1d", "padding_1"),
            "The padding is more than half of the kernel",
            "padding should be at most half of kernel size",
        ),
    ]
]

_THREE_DIMENSIONS = "upstream/conv3d/*|upstream/convtranspose3d/*"
_NATIVE = [
    *(_as_ours(target, "convolution/3d", _THREE_DIMENSIONS)
      for target in ("portable:fp32", "xnnpack:fp32")),
    *(_as_ours(target, "div/floor_of_any", _of("div", "divide_f32_floor"))
      for target in ("portable:fp32", "xnnpack:fp32")),
]  # fmt: skip

_XNNPACK = [
    _as_ours(
        "xnnpack:fp32",
        "prelu/shared",
        _of("prelu", "dtype f32_boundary_values f32_custom_init f32_single_dim"),
    ),
    _as_ours(
        "xnnpack:fp32", "gelu/tanh", _of("gelu", "f32_tanh_approximation f32_tanh_boundary_values")
    ),
    replace(
        _as_ours("xnnpack:fp32", "sqrt/special_values", _of("sqrt", "edge_cases_0")),
        error="elements exceed the bound",
    ),
    Limitation(
        target="xnnpack:fp32",
        case=_of("exp", "edge_cases_1"),
        reason="f32-vexp (src/f32-vexp/rational-3-2.c.in) clamps its argument, and on x86 the "
        "maximum of NaN and -127 is -127: exp(NaN) is 0. Workaround: none in the model but for a "
        "`torch.where(x.isnan(), x, x.exp())`.",
        link="https://github.com/google/XNNPACK/blob/master/src/f32-vexp/rational-3-2.c.in",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
]

_TOSA = [
    _as_ours("tosa:fp", "convolution/transposed_3d", "upstream/convtranspose3d/*"),
    *(
        _as_ours("tosa:fp", f"{operator}/all", _of(operator, names))
        for operator, names in [
            ("amax", "edge_cases_0 edge_cases_3 dtype multi_dim_6 scalar_* shapes_*"),
            ("mean", "basic dtype edge_cases_0 edge_cases_3 edge_cases_6 multi_dim_6 scalar_* "
                     "shapes_*"),
        ]
    ),
    _as_ours(
        "tosa:fp",
        "amax/all",
        _of("amin", "edge_cases_0 edge_cases_3 dtype multi_dim_6 scalar_* shapes_*"),
    ),
    _as_ours("tosa:fp", "elu/alpha", _of("elu", "f32_alpha f32_inplace f32_*_dim")),
    _as_ours("tosa:fp", "log1p/3d", _of("log1p", "dtype shapes_*")),
    _seeded(
        Limitation(
            target="tosa:fp",
            case=_of("logsigmoid", "dtype"),
            reason="DecomposeLog1pPass computes log(1 + x) for x above 1e-3, and the sum loses "
            "digits of x.",
            link="https://github.com/pytorch/executorch/pull/16318",
            stage="compare",
            error="elements exceed the bound",
            outcome=Status.MISMATCH,
        )
    ),
    _as_ours("tosa:fp", "round/halves_to_even", _of("round", "edge_cases_0 values")),
    _as_ours("tosa:fp", "sqrt/special_values", _of("sqrt", "edge_cases_0 edge_cases_1")),
    Limitation(
        target="tosa:fp",
        case=_of("pow", "edge_cases_*"),
        reason="TOSA leaves POW unpredictable for 0 to the power of 0, for infinities and for "
        "NaN, and the partitioner delegates every pow.",
        link="https://www.mlplatform.org/tosa/tosa_spec.html#_pow",
        stage="run",
        error="the reference model ended with GraphStatus.TOSA_UNPREDICTABLE",
    ),
]  # fmt: skip

_FLOORED = [
    Limitation(
        target="tosa:fp|mlx:*|metal:*",
        case=_of("floor_divide", "edge_cases_2"),
        reason=f"The delegate computes {_FLOOR} Upstream's suite does not test backends with "
        "infinities here.",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    )
]

_MLX = [
    replace(
        _as_ours("portable:fp32", "convolution/3d", _of("conv3d", "depthwise groups")),
        target="mlx:*",
        case=_of("conv3d", "depthwise groups") + "|" + _of("convtranspose3d", "depthwise groups"),
        reason="MLX has no 3-D convolution with groups. The portable kernel does not run it "
        "either: check_convolution_args (kernels/portable/cpu/util/kernel_ops_util.cpp) accepts "
        "inputs of rank 3 and 4 only.",
    ),
    Limitation(
        target="mlx:*",
        case=_of("median", "with_indices_* keepdim_with_indices_*"),
        reason="The program returns a torch.return_types.median. The emitter serializes the tree "
        "of the outputs, and torch cannot serialize this type. Fixed in torch after 2.13.",
        link="https://github.com/pytorch/pytorch/issues/197104",
        stage="to_executorch",
        error="No registered serialization name",
    ),
]

_CONVOLUTION = (
    "basic channels_1 depthwise different_spatial_dims dilation_* dtype kernel_size_1 "
    "kernel_size_2 no_bias padding_* stride_*"
)
_METAL = [
    _as_ours("metal:fp32", "convolution/3d", _THREE_DIMENSIONS),
    _as_ours(
        "metal:fp32", "convolution/transposed_1d",
        "upstream/convtranspose1d/*|" + _of("convtranspose2d", "channels_0 groups"),
    ),
    _as_ours(
        "metal:fp32", "convolution/2d",
        _of("conv2d", _CONVOLUTION)
        + "|"
        + _of("convtranspose2d", f"{_CONVOLUTION} kernel_size_0 output_padding_*"),
    ),
    _as_ours(
        "metal:fp32", "_embedding_bag/mean",
        "upstream/embedding_bag/*|"
        + _of("adaptive_avgpool3d", "batch_sizes_* dtype input_sizes_* output_size_2 output_size_3")
        + "|"
        + _of("avgpool3d", "combinations_1 stride_*"),
    ),
    copy_limitation(
        MODELS,
        "metal:fp32",
        "mobilebert/tiny",
        _of("lstm", "batch_first_false bidirectional dtype feature_sizes_1 no_bias_dtype "
                    "num_layers_* return_hidden_states seq_lengths_1 seq_lengths_2 with_*"),
        reason="The gates of a step are views of one buffer. aoti_torch__reinterpret_tensor "
        "(shims/memory.cpp) copies a view with a storage offset into a new Metal buffer at once, "
        "before the GPU has written the memory.",
    ),
    copy_limitation(METAL, "metal:fp32", "relative_attention/one_frame",
                    _of("lstm", "batch_sizes_*")),
    Limitation(
        target="metal:*",
        case=_of("mean", "output_dtype_1 output_dtype_2"),
        reason="The program requests the mean in float64, which Metal does not have. "
        "MetalPartitioner delegates the node anyway, and Inductor's MPS code raises "
        "KeyError for the dtype. Workaround: request float32.",
        link="https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/codegen/mps.py",
        stage="lower",
        error="KeyError: torch.float64",
    ),
    _seeded(_as_ours("metal:fp32", "elu/alpha", _of("elu", "f32_multi_dim"))),
    *(
        replace(_as_ours("metal:fp32", "log1p/near_zero", _of("logsigmoid", variant)), seed=seed)
        for variant, seed in [("dtype", 0), ("f32_boundary_values", None)]
    ),
]  # fmt: skip

_OPENVINO = [
    *(
        _as_ours("openvino:fp32", f"{known}/all", _of(operator, names))
        for operator, known, names in [
            ("amax", "amax", "edge_cases_0 edge_cases_3 dtype multi_dim_6 scalar_* shapes_*"),
            ("amin", "amax", "edge_cases_0 edge_cases_3 dtype multi_dim_6 scalar_* shapes_*"),
            ("argmax", "argmax", "edge_cases_0 edge_cases_3 edge_cases_6 dtype scalar shapes_*"),
            ("argmin", "argmin", "edge_cases_0 edge_cases_3 edge_cases_6 dtype scalar shapes_*"),
            (
                "mean",
                "mean",
                "basic dtype edge_cases_0 edge_cases_3 edge_cases_6 multi_dim_6 "
                "output_dtype_0 output_dtype_1 scalar_* shapes_*",
            ),
        ]
    ),
    *(
        _as_ours("openvino:fp32", "maximum/nan_wins", _of(operator, names))
        for operator, names in [
            ("amax", "edge_cases_4 edge_cases_5"),
            ("amin", "edge_cases_4 edge_cases_5"),
            ("clamp", "edge_cases_2"),
            ("exp", "edge_cases_1"),
        ]
    ),
    *(
        replace(
            _as_ours("openvino:fp32", "maximum/nan_wins", _of(operator, names)),
            error="elements exceed the bound",
        )
        for operator, names in [
            ("argmax", "edge_cases_4 edge_cases_5"),
            ("argmin", "edge_cases_4 edge_cases_5"),
        ]
    ),
    _as_ours(
        "openvino:fp32",
        "convolution/2d_reflect_padding",
        "|".join(_of(f"conv{rank}d", "padding_modes_1") for rank in (1, 2, 3)),
    ),
    _as_ours("openvino:fp32", "clone/contiguous", _of("transpose", "identity_*")),
    _seeded(_as_ours("openvino:fp32", "elu/alpha", _of("elu", "f32_multi_dim"))),
    _as_ours("openvino:fp32", "log1p/near_zero", _of("logsigmoid", "dtype f32_boundary_values")),
    Limitation(
        target="openvino:*",
        case=_of("avgpool1d", "combinations_1") + "|" + _of("avgpool3d", "combinations_1"),
        reason="With ceil_mode the last window may end beyond the padding. OpenVINO's AvgPool "
        "divides by the size of the kernel there, and ATen by the number of elements inside of "
        "the padded input (docs/findings.md). Workaround: `count_include_pad=False`.",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="openvino:*",
        case=_of("mean", "output_dtype_2"),
        reason="The CPU plugin computes float64 in float32 (docs/findings.md).",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="openvino:*",
        case=_of("floor_divide", "edge_cases_2"),
        reason=f"DecomposeFloorDividePass computes {_FLOOR}",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/openvino/_passes/"
        "decompose_floor_divide_pass.py",
        stage="compare",
        error="expected nan",
        outcome=Status.MISMATCH,
    ),
]
_COREMLTOOLS = "https://github.com/apple/coremltools/blob/9.0/coremltools/converters/mil/"
_COREML_OPS = _COREMLTOOLS + "frontend/torch/ops.py"
_POOL_DILATIONS = "combinations_2 dilation_0 dilation_1"


def _refused_by_coreml(cases: str, reason: str, error: str, link: str = _COREML_OPS) -> Limitation:
    return Limitation(
        target="coreml:*", case=cases, reason=reason, link=link, stage="lower", error=error
    )


_MEAN = replace(
    _as_ours("coreml:fp32", "sum/out_dtype", _of("mean", "output_dtype_*")),
    reason="mean (ops.py) does not read the keyword argument dtype: the model computes a mean of "
    "integers in int32, and one in float64 in float32.",
)
_LOGSIGMOID = Limitation(
    target="coreml:fp32",
    case=_of("logsigmoid", "dtype f32_boundary_values"),
    reason="log_sigmoid (ops.py) is the logarithm of a sigmoid, which is near 1 for positive x: "
    "the digits of the result are lost in its rounding.",
    link=_COREML_OPS,
    stage="compare",
    outcome=Status.MISMATCH,
)
_COREML = [
    replace(
        _as_ours("coreml:fp32", "max_pool2d_with_indices/dilation", _of("maxpool2d", "dilation_0")),
        target="coreml:*",
        case="|".join(_of(f"maxpool{n}d", _POOL_DILATIONS) for n in (1, 2, 3)),
    ),
    _as_ours("coreml:fp32", "gelu/tanh", _of("gelu", "f32_tanh_*")),
    _MEAN,
    replace(_MEAN, target="coreml:fp16", case=_of("mean", "output_dtype_0")),
    _LOGSIGMOID,
    replace(_LOGSIGMOID, target="coreml:fp16", case=_of("logsigmoid", "dtype"), seed=0),
    _seeded(_as_ours("coreml:fp16", "log1p/near_zero", _of("log1p", "dtype shapes_2"))),
    replace(_as_ours("coreml:fp16", "log1p/near_zero", _of("log1p", "shapes_0 shapes_1")), seed=2),
    replace(
        next(each for each in _MLX if "serialization name" in each.error), target="coreml:*"
    ),
    _refused_by_coreml(
        _of("adaptive_maxpool1d", "return_indices") + "|"
        + _of("adaptive_maxpool2d", "return_indices"),
        "adaptive_max_pool (ops.py) returns the values only, and the program reads the indices.",
        "Item selection is supported only on python list/tuple objects",
    ),
    _refused_by_coreml(
        "|".join(_of(f"convtranspose{n}d", "output_padding*") for n in (1, 2, 3)),
        "_construct_conv_transpose (ops.py) sums the padding, which is None in a program that "
        "leaves it at 0. With a padding of 0 it refuses output_padding.",
        "'NoneType' object is not iterable",
    ),
    _refused_by_coreml(
        _of("index_put", "two_indices_4 in_place_two_indices_4"),
        "index_put (ops.py) stacks the indices without broadcasting them.",
        "has shape (3,), others have (1,)",
    ),
    _refused_by_coreml(
        "|".join(_of(f"conv{n}d", "padding_modes_3") for n in (1, 2, 3)),
        "pad (ops.py) passes the mode circular to MIL's pad, which has constant, reflect and "
        "replicate.",
        "Pad mode should be one of",
    ),
    _refused_by_coreml(
        _of("avgpool3d", "ceil_mode combinations_1"),
        "MIL's pooling in three dimensions has no ceil_mode together with padding that counts.",
        "pool3D with ceil mode=True and include_pad=True not supported",
        _COREMLTOOLS + "mil/ops/defs/iOS15/pool.py",
    ),
]  # fmt: skip

# TOSA's reference model refuses these operands.
_VGF = [
    Limitation(
        target="vgf:fp",
        case=_of("pow", "edge_cases_0 edge_cases_2"),
        reason="TOSA leaves POW unpredictable for 0 to the power of 0 and for NaN, and the "
        "partitioner delegates every pow. The emulation layer (elementwise_binary.comp) calls "
        "GLSL's pow, which is undefined for them, and lp_build_pow of lavapipe (lp_bld_arit.c) "
        "returns 0. Workaround: `torch.where`.",
        link="https://www.mlplatform.org/tosa/tosa_spec.html#_pow",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    )
]

LIMITATIONS: list[Limitation] = [
    *_EVERYWHERE,
    *_NATIVE,
    *_XNNPACK,
    *_TOSA,
    *_FLOORED,
    *_MLX,
    *_METAL,
    *_COREML,
    *_OPENVINO,
    *_VGF,
]
LIMITATIONS += copy_to_vgf(LIMITATIONS)
