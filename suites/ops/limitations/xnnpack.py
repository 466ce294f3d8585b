"""Limitations in the XNNPACK partitioner and delegate."""

from __future__ import annotations

from harness import Limitation, Status

_TARGET = "xnnpack:*"
_EXECUTORCH = "https://github.com/pytorch/executorch/"
_XNNPACK = "https://github.com/google/XNNPACK/"

_NORM_OF_FEATURES = (
    "FuseBatchNormPass folds a batch norm into the linear layer before it, also for inputs of rank "
    "3 (docs/findings/xnnpack_norm_behind_linear.py). Their channels are in the second dimension, "
    "and the features of the layer in the last. "
)

XNNPACK: list[Limitation] = [
    # Partitioner and passes
    Limitation(
        target=_TARGET,
        case="prelu/shared|max_pool2d_with_indices/unbatched|avg_pool2d/unbatched",
        reason="PreluConfig, MaxPool2dConfig and AvgPoolingConfig (backends/xnnpack/partition/"
        "config) accept inputs of any rank. ChannelsLastTaggedReshapePass, which needs NHWC there, "
        "then raises an error for an input that is not 4-D. Workaround: give it an input of four "
        "dimensions, such as `x[:, :, None, None]`.",
        link=_EXECUTORCH + "pull/18624",
        stage="lower",
        error="Attempting to convert non-NHWC compatible node to NHWC",
    ),
    Limitation(
        target=_TARGET,
        case="convolution/1d_twice|convolution/1d_tied",
        reason="Conv1dUnsqueezePass gives the weight of a conv1d a fourth dimension before it "
        "visits the second convolution with this weight (docs/findings/xnnpack_conv1d_weight.py). "
        "Workaround: a `conv2d` of `x.unsqueeze(-1)` and `weight.unsqueeze(-1)`.",
        link=_EXECUTORCH + "blob/v1.5.1/backends/xnnpack/_passes/conv1d_unsqueeze_pass.py",
        stage="lower",
        error="for 4-dimensional weight",
    ),
    Limitation(
        target=_TARGET,
        case="_softmax/behind_convolution",
        reason="SoftmaxConfig.check_constraints (backends/xnnpack/partition/config) requires the "
        "last dimension of the logical shape, but a convolution's result stays channels-last in "
        "the delegate, and XNNPACK's softmax runs over the channels. Workaround: flatten "
        "dimensions before the softmax and unflatten them after it.",
        link=_EXECUTORCH + "blob/v1.5.1/backends/xnnpack/partition/config/generic_node_configs.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_TARGET,
        case="relu/behind_relu6_of_product",
        reason="FuseActivationPass.call (backends/xnnpack/_passes/fuse_activation_pass.py) fuses "
        "an activation into the operator before it. A second activation finds the same operator "
        "and overwrites the limits of the first. Workaround: one clamp with both limits.",
        link=_EXECUTORCH + "blob/v1.5.1/backends/xnnpack/_passes/fuse_activation_pass.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_TARGET,
        case="convolution/2d_channels_last_model|convolution/2d_channels_last_weight",
        reason="ChannelsLastTaggedReshapePass.call refuses a weight that is stored channels-last, "
        "as model.to(memory_format=torch.channels_last) stores it. Workaround: leave weights "
        "contiguous; channels-last inputs alone are taken.",
        link=_EXECUTORCH
        + "blob/v1.5.1/backends/xnnpack/_passes/channels_last_tagged_reshape_pass.py",
        stage="lower",
        error="Expected p_weight to be NCHW in channels last reshape pass",
    ),
    *(
        Limitation(
            target=_TARGET,
            case=f"norm_behind/transposed_conv2d_{case}",
            reason="FuseBatchNormPass scales the weight of a transposed convolution along its "
            "second dimension (fuse_conv_bn_weights), which has the output channels of one group. "
            "With several groups lowering raises an error; can_fuse does not check them. "
            "Workaround: fold the normalization into the weights before export, group by group.",
            link=_EXECUTORCH + "blob/v1.5.1/backends/xnnpack/_passes/fuse_batch_norm.py",
            stage="lower",
            error=error,
        )
        for case, error in (
            ("groups_no_bias", "The size of tensor a (3) must match the size of tensor b (6)"),
            ("depthwise", "expected bias to be 1-dimensional with 16 elements"),
        )
    ),
    Limitation(
        target=_TARGET,
        case="norm_behind/linear_3d",
        reason=_NORM_OF_FEATURES + "Here both have four elements, and results are silently wrong. "
        "Workaround: `BatchNorm2d` of `x.unsqueeze(-1)`.",
        link=_EXECUTORCH + "blob/v1.5.1/backends/xnnpack/_passes/fuse_batch_norm.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_TARGET,
        case="norm_behind/linear_3d_other_size",
        reason=_NORM_OF_FEATURES + "Here they have different sizes, and lowering raises an error.",
        link=_EXECUTORCH + "blob/v1.5.1/backends/xnnpack/_passes/fuse_batch_norm.py",
        stage="lower",
        error="The size of tensor a (4) must match the size of tensor b (6)",
    ),
    Limitation(
        target=_TARGET,
        case="norm_behind/conv2d_twice|norm_behind/linear_twice",
        reason="FuseBatchNormPass names the weight that it computes after the layer's weight, and "
        "create_constant_placeholder (backends/transforms/utils.py) returns the one that has the "
        "name already: a layer with two batch norms gets the weights of the first for both "
        "(docs/findings/xnnpack_two_norms_of_one_layer.py). Workaround: a copy of the layer for "
        "each norm.",
        link=_EXECUTORCH + "blob/v1.5.1/backends/xnnpack/_passes/fuse_batch_norm.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_TARGET,
        case="norm_behind/norm",
        reason="DecomposeBatchNorm replaces a batch norm by a convolution without a value, and "
        "reads the value of the node before the next batch norm. Workaround: fold one into the "
        "other before export.",
        link=_EXECUTORCH + "blob/v1.5.1/backends/xnnpack/_passes/decompose_batch_norm.py",
        stage="lower",
        error="KeyError: 'val'",
    ),
    Limitation(
        target=_TARGET,
        case="norm_given/conv2d_mean|norm_given/conv2d_var|norm_given/conv2d_bias"
        "|norm_given/linear_mean|norm_given/linear_var|norm_given/linear_bias",
        reason="FuseBatchNormPass.can_fuse checks that the weights of the layer and of the batch "
        "norm are parameters, and not mean, variance and bias. BatchNormConfig.get_node_and_deps "
        "then takes an input of the program for a constant of the delegate, which exir refuses. "
        "Workaround: the arithmetic, `(x - mean) * (variance + eps).rsqrt() * weight + bias`.",
        link=_EXECUTORCH + "blob/v1.5.1/backends/xnnpack/_passes/fuse_batch_norm.py",
        stage="lower",
        error="placeholder node for non-params, non-buffer, and non-tensor constants",
    ),
    Limitation(
        target=_TARGET,
        case="norm_written/*",
        reason="BatchNormConfig.get_node_and_deps (backends/xnnpack/partition/config) takes "
        "weight, bias, mean and variance into the partition, also a buffer that the program "
        "writes. The delegate then has no output for the new value, and the process ends "
        "(docs/findings/xnnpack_written_statistics.py). Workaround: the arithmetic, "
        "`(x - mean) * (variance + eps).rsqrt() * weight + bias`.",
        link=_EXECUTORCH + "blob/v1.5.1/backends/xnnpack/partition/config/node_configs.py",
        stage="run",
        error="Segmentation fault",
        outcome=Status.CRASHED,
    ),
    Limitation(
        target=_TARGET,
        case="convolution/2d_weight_read",
        reason="NodeVisitor.define_tensor gives a second reader of a weight the bytes in the "
        "layout of the first (docs/findings/xnnpack_weight_of_two_readers.py). Workaround: a "
        "second parameter with a copy of the weight.",
        link=_EXECUTORCH + "blob/v1.5.1/backends/xnnpack/operators/node_visitor.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="xnnpack:fp*|xnnpack:int8_dynamic",
        case="linear/bias_matrix|linear/bias_of_one",
        reason="LinearVisitor and AddmmVisitor give XNNPACK any bias as one value per feature, "
        "where ATen broadcasts it (docs/findings/xnnpack_bias_shape.py). Workaround: "
        "`torch.nn.functional.linear(x, self.weight) + self.bias`.",
        link=_EXECUTORCH + "blob/v1.5.1/backends/xnnpack/operators/op_linear.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_TARGET,
        case="slice_copy/from_before_first",
        reason="SliceCopyVisitor adds the size of the dimension to a negative start, and does "
        "not clamp the sum to the first element (docs/findings/xnnpack_slice_before_first.py). "
        "Workaround: `x[:, max(-7, -x.shape[1]) : -3]`.",
        link=_EXECUTORCH + "blob/v1.5.1/backends/xnnpack/operators/op_slice_copy.py",
        stage="lower",
        error="flatc",
    ),
    Limitation(
        target=_TARGET,
        case="max/values_of_channels|max/values_without_dim",
        reason="MaxDimConfig takes the maximum of a 4-d tensor along any dimension, and MaxDim "
        "(op_max_dim.py) raises an error unless that is 2 or 3 and keepdim is True "
        "(docs/findings/xnnpack_max_of_channels.py). Workaround: "
        "`x.amax(1, keepdim=True)`.",
        link=_EXECUTORCH + "blob/v1.5.1/backends/xnnpack/partition/config/node_configs.py",
        stage="lower",
        error="amax.default only supports",
    ),
    Limitation(
        target=_TARGET,
        case="gelu/tanh",
        reason="GeluVisitor.define_node (backends/xnnpack/operators/op_gelu.py) drops the "
        "approximate argument and GeluConfig does not check it, so the delegate computes the "
        "exact gelu. Workaround: write the tanh form out, or export with it decomposed.",
        link=_EXECUTORCH + "pull/22851",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    # Microkernels, which XNNPACK chooses by the processor's extensions
    Limitation(
        target=_TARGET,
        case="maximum/nan_wins",
        reason="On x86 f32-vmax is MAXPS, which returns its second operand if either is NaN. "
        "XNNPACK does not specify minimum and maximum for NaN, but MaximumConfig delegates "
        "aten.maximum, which propagates NaN.",
        link=_XNNPACK + "issues/441",
        stage="compare",
        error="2 of 6 elements exceed the bound",
        outcome=Status.MISMATCH,
        host="x86_64/*",
    ),
    Limitation(
        target=_TARGET,
        case="sqrt/special_values",
        reason="On x86 f32-vsqrt (src/f32-vsqrt/simd-rsqrt.c.in) computes x * rsqrt(x) with a "
        "Newton step and masks only zero: sqrt(inf) is inf * 0 = NaN.",
        link=_XNNPACK + "issues/10399",
        stage="compare",
        error="2 of 10 elements exceed the bound",
        outcome=Status.MISMATCH,
        host="x86_64/*",
    ),
    Limitation(
        target=_TARGET,
        case="rsqrt/special_values",
        reason="On x86 f32-vrsqrt (src/f32-vrsqrt/simd-rsqrt.c.in) refines the estimate with a "
        "Newton step and masks only infinity: rsqrt(0) is 0 * inf = NaN instead of infinity.",
        link=_XNNPACK + "blob/master/src/f32-vrsqrt/simd-rsqrt.c.in",
        stage="compare",
        error="2 of 10 elements exceed the bound",
        outcome=Status.MISMATCH,
        host="x86_64/*",
    ),
    Limitation(
        target=_TARGET,
        case="log/special_values",
        reason="xnn_signed_getexp_f32 (src/f32-vlog/rational-3-3.c.in) reads the exponent from "
        "the bits and does not treat infinity separately: log(inf) is 127.5 * log(2) = 88.376. "
        "The AVX-512 variant uses an instruction that does.",
        link=_XNNPACK + "blob/master/src/f32-vlog/rational-3-3.c.in",
        stage="compare",
        error="2 of 10 elements exceed the bound",
        outcome=Status.MISMATCH,
        host="x86_64/avx2|x86_64/avx|x86_64/s*|aarch64/*",
    ),
]
