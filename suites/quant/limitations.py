"""Limitations of the integer suite."""

from __future__ import annotations

from harness import Limitation, Status

_XNNPACK = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack/"
_ARM = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/"

LIMITATIONS: list[Limitation] = [
    Limitation(
        target="mlx:fp32",
        case="prequantized/mxfp8_decoder",
        reason="The module decodes its weight with what executorch.extension.llm.export.mx "
        "registers, which 1.4.1 does not have.",
        stage="build",
        error="executorch.extension.llm.export.mx",
        shown_as=Status.UNSUPPORTED,
        until="1.5.0",
    ),
    Limitation(
        target="xnnpack:int8|xnnpack:int8_per_tensor",
        case="int_shared/halves_of_a_conv",
        reason="The two slices of one convolution share the dequantize in front of them: "
        "get_node_and_deps (partition/config/generic_node_configs.py) of 1.4.1 marks it as one "
        "that needs no code, and a slice from int8 to float32 is left, which XNNPACK refuses.",
        link="https://github.com/pytorch/executorch/blob/v1.4.1/backends/xnnpack/partition/config/"
        "generic_node_configs.py",
        stage="run",
        error="Failed to load method forward",
        until="1.5.0",
    ),
    Limitation(
        target="xnnpack:int8|xnnpack:int8_per_tensor",
        case="int_linear/one_layer_twice",
        reason="NodeVisitor.define_tensor returns the value that it made of a node before, "
        "whatever quantization is asked for. A bias is quantized in units of input scale times "
        "weight scale (QuantParams.from_bias), so the second use of a layer gets the bias in the "
        "units of the first.",
        link=_XNNPACK + "operators/node_visitor.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="xnnpack:int8",
        case="int_add/channels_last",
        reason="ChannelsLastTaggedReshapePass.is_nhwc_node looks at meta['val'][0] of the input "
        "behind a dequantize, which is the first image and not the tensor, and takes a "
        "channels-last input for contiguous: the delegate's result has its dimensions permuted.",
        link=_XNNPACK + "_passes/channels_last_tagged_reshape_pass.py",
        stage="run",
        error="method->execute() failed with error 0x10",
    ),
    Limitation(
        target="xnnpack:int8",
        case="int_add/number_that_is_a_sum",
        reason="The same meta['val'][0] in is_nhwc_node: an input without dimensions, here a sum "
        "that runs outside the delegate, has no first element.",
        link=_XNNPACK + "_passes/channels_last_tagged_reshape_pass.py",
        stage="lower",
        error="invalid index of a 0-dim tensor",
    ),
    Limitation(
        target="tosa:int",
        case="int_conv2d/same_even_kernel_relu",
        reason="The convolution decomposes after quantization, so its pad has no quantize after "
        "it. TOSAPartitioner._detag_boundary_nodes still leaves it in a partition with the "
        "dequantize before it: a delegate declared float32 that returns int8.",
        link=_ARM + "tosa/partitioner.py",
        stage="run",
        error=" bytes int8(1, 1, 9, 3) for a planned tensor of 108 bytes",
    ),
    Limitation(
        target="xnnpack:fp32",
        case="prequantized/int8_rows|prequantized/intx*",
        reason="ConvertToLinearPass.create_linear puts linear(x, weight) in place of all that came "
        "of a torch.nn.Linear, and takes for the weight whatever its first argument leads to: the "
        "codes. Scales are dropped, and the delegate's result is the product with the codes "
        "(docs/findings.md).",
        link=_XNNPACK + "_passes/convert_to_linear.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="prequantized/intx4_groups",
        reason="TOSAPartitioner takes a linear layer without a look at its weight, which "
        "dequantize_affine computes outside of the delegate; RewriteConvPass._rewrite_weight "
        "permutes it at compile time and needs it constant.",
        link=_ARM + "_passes/rewrite_conv_pass.py",
        stage="lower",
        error="unsupported param type, call_function",
    ),
]
