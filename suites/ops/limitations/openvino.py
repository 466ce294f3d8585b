"""Limitations in OpenVINO's partitioner, frontend, CPU plugin and delegate."""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import copy_limitation
from suites.ops.limitations.runtime import RUNTIME

_TARGET = "openvino:*"
_EXECUTORCH = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/openvino/"
_OPENVINO = "https://github.com/openvinotoolkit/openvino/blob/master/src/"
_FRONTEND = _OPENVINO + "frontends/pytorch/src/op/"

_CHANNELS_LAST = Limitation(
    target=_TARGET,
    case="max_pool2d_with_indices/channels_last|avg_pool2d/channels_last|sum/channels_last"
    "|_adaptive_avg_pool2d/channels_last|upsample_nearest2d/channels_last|mean/channels_last"
    "|slice_copy/channels_last|cat/channels_last|constant_pad_nd/channels_last"
    "|native_group_norm/channels_last|add/channels_last_broadcast|mul/channels_last_mixed"
    "|_to_copy/to_channels_last*|convolution/2d_channels_last*"
    "|convolution/transposed_2d_channels_last|clone/from_channels_last"
    "|_native_batch_norm_legit_no_training/2d_channels_last|view_copy/channels_last_flatten"
    "|permute_copy/channels_last_input",
    reason="The delegate gives OpenVINO the memory of a channels-last tensor with its logical "
    "sizes and without strides (create_ov_tensor in runtime/OpenvinoBackend.cpp), and lowering "
    "drops the dim orders of the graph (DimOrderOpsRevertPass): the elements are read in another "
    "order (docs/findings.md). Workaround: contiguous inputs and outputs.",
    link=_EXECUTORCH + "preprocess.py",
    stage="compare",
    outcome=Status.MISMATCH,
)

_MAXIMUM_SIZE = Limitation(
    target=_TARGET,
    case="add/dynamic_batch|add/dynamic_broadcast|mul/dynamic_two_dims|linear/dynamic_batch"
    "|convolution/dynamic_batch|convolution/dynamic_length|_softmax/dynamic_length"
    "|cat/dynamic_length|slice_copy/dynamic_drop_last|embedding/dynamic_length",
    reason="The delegate gives OpenVINO output tensors of the planned sizes, which are the largest "
    "ones of dynamic dimensions, and never resizes the outputs of the program (execute in "
    "runtime/OpenvinoBackend.cpp; docs/findings.md). Workaround: export for one size.",
    link=_EXECUTORCH + "runtime/OpenvinoBackend.cpp",
    stage="compare",
    error="expected (",
    outcome=Status.MISMATCH,
)

_WITHOUT_DIMENSIONS = Limitation(
    target=_TARGET,
    case="*/scalar|*/scalars|sum/all|mean/all|prod/all|var/all|amax/all|max/all|argmax/all"
    "|argmin/all|any/all|min/all_int64|sum/int32_promotes|view_copy/to_scalar"
    "|select_copy/to_scalar|matmul/dot|fill/from_tensor|embedding/one_token|one_hot/classes",
    reason="The delegate describes each tensor with ov_shape_create, which refuses a rank of 0: it "
    "cannot take or return a tensor without dimensions (docs/findings.md). The partitioner takes "
    "the operator. Workaround: a dimension of size 1, `x.reshape(1)`.",
    link=_OPENVINO + "bindings/c/src/ov_shape.cpp",
    stage="run",
    error="failed with error 0x",
)

_NO_SUCH_TYPE = (
    "The partitioner asks for the name of an operator only, and the frontend converts it to an "
    "operator of OpenVINO that has no bools"
)

_SAME_CAUSE = {
    "tanh/transposed": "tanh/transposed|add/transposed|convolution/2d_transposed_input"
    "|mm/transposed_inputs|linear/transposed_input|bmm/transposed_input"
    "|native_layer_norm/transposed_input|_softmax/transposed|sum/transposed|argmax/transposed"
    "|view_copy/of_transposed|floor/transposed",
    "clone/of_transposed": "_to_copy/transposed|clone/of_transposed",
    "scaled_dot_product_attention/flattened": "scaled_dot_product_attention/flattened",
    "nonzero/2d": "nonzero/2d",
}
"""Cases whose cause is that of a case in the runtime or export flow, by that case."""

OPENVINO: list[Limitation] = [
    *(
        copy_limitation(RUNTIME, "portable:fp32", known, cases, target=_TARGET)
        for known, cases in _SAME_CAUSE.items()
    ),
    # Delegate
    _CHANNELS_LAST,
    _MAXIMUM_SIZE,
    _WITHOUT_DIMENSIONS,
    Limitation(
        target=_TARGET,
        case="clone/contiguous|clone/to_channels_last",
        reason="A clone has no operator in OpenVINO: the model's output is its input. The delegate "
        "sets its tensors by index, and setting the output replaces the memory of the input, which "
        "is not read (docs/findings.md). Workaround: return a computed value.",
        link=_EXECUTORCH + "runtime/OpenvinoBackend.cpp",
        stage="compare",
        error="looks 0 everywhere",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_TARGET,
        case="_to_copy/empty|view_copy/empty|neg/empty",
        reason="ov_tensor_create_from_host_ptr refuses a null pointer, which a tensor without "
        "elements has, so the delegate cannot take or return it. Workaround: skip the call.",
        link=_OPENVINO + "bindings/c/src/ov_tensor.cpp",
        stage="run",
        error="failed with error 0x",
    ),
    Limitation(
        target=_TARGET,
        case="zeros_like/empty",
        reason="OpenVINO does not import the model that it exported, which is a constant without "
        "elements.",
        stage="run",
        error="Failed to load method",
    ),
    Limitation(
        target=_TARGET,
        case="cumsum/bool_positions",
        reason="The frontend converts a cumulative sum of bools without a promotion to int64, so "
        "that the model's output has another type than the program's. Workaround: `.long()`.",
        link=_FRONTEND + "cumsum.cpp",
        stage="run",
        error="failed with error 0x",
    ),
    # Lowering
    Limitation(
        target=_TARGET,
        case="embedding/empty",
        reason="Compilation of a Gather without elements divides by zero, which ends the process "
        "that lowers. Workaround: skip the call.",
        stage="lower",
        error="Floating point exception",
        outcome=Status.CRASHED,
    ),
    Limitation(
        target=_TARGET,
        case="mm/empty_inner_dim",
        reason="Compilation of a MatMul whose inner dimension is 0 fails inside of the CPU plugin.",
        stage="lower",
        error="object is not initialized",
    ),
    Limitation(
        target=_TARGET,
        case="scaled_dot_product_attention/dynamic_length|linear/dynamic_sequence"
        "|view_copy/dynamic_flatten|arange/dynamic_positions",
        reason="A size is an input of the partition, and OpenvinoBackend.preprocess passes it to "
        "openvino_compile, which takes tensors and numbers only. Workaround: export for one size.",
        link=_EXECUTORCH + "preprocess.py",
        stage="lower",
        error="'SymInt' object has no attribute 'type'",
    ),
    Limitation(
        target=_TARGET,
        case="add/bf16|mm/bf16",
        reason="The partitioner takes operators of any dtype, and openvino_compile has no entry "
        "for bfloat16 and int16 in its dtype_mapping (docs/findings.md). Workaround: float32.",
        link="https://github.com/openvinotoolkit/openvino/blob/master/src/bindings/python/src/"
        "openvino/frontend/pytorch/torchdynamo/compile.py",
        stage="lower",
        error="KeyError: torch.bfloat16",
    ),
    Limitation(
        target=_TARGET,
        case="minimum/bool|index_put/bool_mask|sum/bool_counts",
        reason=f"{_NO_SUCH_TYPE} (Minimum, Add, ReduceSum). Workaround: convert to int32 first.",
        link=_EXECUTORCH + "partitioner.py",
        stage="lower",
        error="does not support inputs with element type: boolean",
        or_fails=(("lower", "data input must be numeric. Got: boolean"),),
    ),
    Limitation(
        target=_TARGET,
        case="gather/smaller_index|index_put/broadcast_value|avg_pool2d/divisor"
        "|col2im/overlapping",
        reason="The partitioner takes the operator by its name, and OpenVINO's frontend does not "
        "convert this form of it: an index smaller than its input, an index_put whose result has "
        "no shape yet, a divisor of its own.",
        link=_FRONTEND,
        stage="lower",
        error="OpConversionFailure",
    ),
    Limitation(
        target=_TARGET,
        case="pixel_shuffle/factor3|pixel_shuffle/int64",
        reason="OpenvinoPartitioner.ops_to_not_decompose keeps pixel_shuffle whole, and "
        "OpenVINO's OperatorSupport does not list it, so exir refuses the program "
        "(docs/findings.md). Workaround: write the shuffle as reshape and permute.",
        link=_EXECUTORCH + "partitioner.py",
        stage="lower",
        error="was not decomposed or delegated",
    ),
    # CPU plugin
    Limitation(
        target=_TARGET,
        case="reflection_pad?d/asymmetric|convolution/2d_reflect_padding",
        reason="The padding is an index of constants, `n - abs(n - abs(arange))`. OpenVINO drops "
        "the Abs of a Subtract of constants when it folds constants (docs/findings.md). "
        "Workaround: replicate or constant padding.",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_TARGET,
        case="relu/inf_and_nan|maximum/nan_wins",
        reason="The kernels probably use x86's maxps, which returns its second operand where one "
        "is NaN: relu of NaN is 0 and the maximum is the number (docs/findings.md).",
        link="https://github.com/openvinotoolkit/oneDNN/blob/main/src/cpu/x64/injectors/"
        "jit_uni_eltwise_injector.cpp",
        stage="compare",
        error="expected nan",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_TARGET,
        case="add/uint8_wraps",
        reason="The CPU plugin computes sums of uint8 in int32 and saturates when it stores them; "
        "they wrap around in torch (docs/findings.md). Workaround: add in int32.",
        stage="compare",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="openvino:fp32",
        case="elu/alpha|softplus/beta_threshold|log1p/near_zero",
        reason="oneDNN and the frontend compute `exp(x) - 1`, `log(exp(x) + 1)` and `log(x + 1)` "
        "as written: near zero their error is that of a number near 1.",
        link="https://github.com/openvinotoolkit/oneDNN/blob/main/src/cpu/x64/injectors/"
        "jit_uni_eltwise_injector.cpp",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
        seed=0,
    ),
    Limitation(
        target="openvino:fp32",
        case="erf/2d",
        reason="jit_erf_emitter computes 1 - exp(-x^2) times a polynomial (Abramowitz and Stegun "
        "7.1.26), whose error is absolute, 1.5e-7: near zero few digits are right.",
        link=_OPENVINO + "plugins/intel_cpu/src/emitters/plugin/x64/jit_eltwise_emitters.cpp",
        stage="compare",
        outcome=Status.MISMATCH,
        seed=0,
    ),
]
