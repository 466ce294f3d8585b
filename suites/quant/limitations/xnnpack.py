"""Limitations of the integer suite: XNNPACK."""

from __future__ import annotations

from harness import Limitation, Status

_XNNPACK = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack/"

_BIAS_OF_TWO_USES = (
    "NodeVisitor.define_tensor returns the value that it created for a node before, even if "
    "another quantization is requested. A bias is quantized in units of input scale times weight "
    "scale (QuantParams.from_bias), so the second use of a layer gets the bias in the units of the "
    "first: XNNPACK refuses a convolution, and computes a linear layer with wrong values. "
    "Workaround: a copy of the layer for each use."
)

FILTERED_CONVOLUTION = (
    "XNNPACKQuantizer asks its filter for weights and bias of a convolution, too "
    "(_do_annotate_conv). These nodes have no module, so set_module_type and set_module_name "
    "never quantize a convolution. Workaround: "
    "`set_operator_type(torch.ops.aten.conv2d.default, config)`."
)

_COPY_OF_CONVOLUTION = (
    "ChannelsLastTaggedReshapePass.insert_copy_q_dq replaces the dequantized result of a "
    "convolution for all its readers by a copy in the order of the output, where an operator "
    "outside of the delegate reads it as well (docs/findings.md). Workaround: another activation."
)

XNNPACK: list[Limitation] = [
    Limitation(
        target="xnnpack:int8",
        case="int_moved/pad_returned",
        reason="InsertPadQDQPass makes a zero pad of a dequantized value one of codes, also where "
        "its reader is not quantized (docs/findings/xnnpack_pad_of_codes.py). Workaround: "
        "`F.pad(...) * 1`.",
        link=f"{_XNNPACK}_passes/insert_pad_qdq.py",
        stage="run",
        error="Failed to create StaticConstantPad node",
    ),
    Limitation(
        target="xnnpack:int8",
        case="int_moved/unsqueeze_into_cat|int_moved/unflatten_into_cat",
        reason="UnsqueezeCopyConfig takes an unsqueeze between two scales, which XNNPACK refuses "
        "(docs/findings/xnnpack_unsqueeze_of_codes.py). Workaround: `.view(3, 4, 1)` instead of "
        "`.unsqueeze(-1)`.",
        link=f"{_XNNPACK}partition/config/generic_node_configs.py",
        stage="run",
        error="Failed to create squeeze node",
    ),
    Limitation(
        target="xnnpack:int8",
        case="int_shared/first_token",
        reason="_annotate_cat annotates a cat of integers, and HistogramObserver supports floats "
        "only (docs/findings/xnnpack_cat_of_integers.py). Workaround: "
        "`torch.nn.functional.pad(tokens, (1, 0), value=1)`, or a cat of the embeddings.",
        link=f"{_XNNPACK}quantizer/xnnpack_quantizer_utils.py",
        stage="quantize",
        error="\"histogram_cpu\" not implemented for 'Long'",
    ),
    Limitation(
        target="xnnpack:int8",
        case="int_moved/rows_into_cat",
        reason="XNNPACKQuantizer does not let the operator `t` share the scale of its operand, "
        "PermuteConfig takes it between two scales, and XNNPACK refuses it. Workaround: "
        "`.transpose(0, 1)`.",
        link=f"{_XNNPACK}partition/config/generic_node_configs.py",
        stage="run",
        error="Failed to create static transpose node",
    ),
    Limitation(
        target="xnnpack:int8+layer_types",
        case="float_island/*conv*|float_island/*pool2d|float_island/group_norm"
        "|float_island/batch_statistics|float_island/scaled",
        reason=FILTERED_CONVOLUTION,
        link=f"{_XNNPACK}quantizer/xnnpack_quantizer_utils.py",
        stage="quantize",
        error="set_module_type(Conv2d) has no effect",
    ),
    Limitation(
        target="xnnpack:int8",
        case="int_shared/sums_of_floats_and_integers",
        reason="_convert_scalars_to_attrs (quantizer/xnnpack_quantizer_utils.py) converts every "
        "added or multiplied number to a float32 tensor, so sums of integers and numbers become "
        "floats. Workaround: make the number a buffer of integers.",
        link=f"{_XNNPACK}quantizer/xnnpack_quantizer_utils.py",
        stage="quantize",
        error="dtype float32, expected int64",
    ),
    Limitation(
        target="xnnpack:int8|xnnpack:int8_per_tensor",
        case="int_shared/relu6_beside_output",
        reason="XNNPACK drops floating-point readers of a quantized value: the quantizer knows no "
        "relu6 or clamp, so that the output of the program and the relu6 share a dequantize node, "
        "which GenericNodePartitionerConfig treats as implicit for both "
        "(docs/findings/xnnpack_shared_dequantize.py). Workaround: return `h * 1`.",
        link=f"{_XNNPACK}partition/config/generic_node_configs.py",
        stage="compare",
        error="looks 0 everywhere",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="xnnpack:int8|xnnpack:int8_per_tensor",
        case="int_pool/max_then_relu6|int_pool/max_then_clamp",
        reason="XNNPACK gives the codes of a max pool the scale of the clamp behind it: its "
        "runtime fuses the two (xnn_subgraph_fusion in XNNPACK's src/subgraph.c), and a pool "
        "passes on the codes of its input. The quantizer knows no relu6 or clamp, and gives their "
        "results a scale of their own (docs/findings/xnnpack_clamp_behind_max_pool.py). "
        "Workaround: the clamp before the pool.",
        link="https://github.com/google/XNNPACK/blob/master/src/subgraph.c",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="xnnpack:int8|xnnpack:int8_per_tensor",
        case="int_shared/halves_of_a_conv",
        reason="Two slices of one convolution share a dequantize. get_node_and_deps "
        "(partition/config/generic_node_configs.py) of 1.4.1 treats it as implicit, although a "
        "slice in float32 also reads it: XNNPACK gets a slice from int8 to float32 and refuses "
        "it.",
        link="https://github.com/pytorch/executorch/blob/v1.4.1/backends/xnnpack/partition/config/"
        "generic_node_configs.py",
        stage="run",
        error="Failed to load method forward",
        until="1.5.0",
    ),
    Limitation(
        target="xnnpack:int8|xnnpack:int8_per_tensor",
        case="int_shared/logits_and_sigmoid",
        reason="ChannelsLastTaggedReshapePass.insert_copy_q_dq replaces the dequantized result "
        "of a convolution for all its readers by a copy in the order of the output. The sigmoid "
        "computes from the copy, and is permuted as if it had computed in channels-last "
        "(docs/findings.md). Workaround: return `logits * 1`.",
        link=_XNNPACK + "_passes/channels_last_tagged_reshape_pass.py",
        stage="run",
        error="Attempted to resize a static tensor. Expected shape (1, 4, 5, 5)",
    ),
    Limitation(
        target="xnnpack:int8|xnnpack:int8_per_tensor",
        case="int_shared/difference_around_layer",
        reason="The partitioner takes a difference with its dequantize nodes as one group. "
        "GroupBasedPartitioner checks for cycles where it merges groups, not within a group "
        "(docs/findings.md). Workaround: `y + self.b(F.silu(y)) * -1`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/exir/backend/"
        "canonical_partitioners/group_partitioner.py",
        stage="lower",
        error="Invalid partition, found dependency cycles",
    ),
    Limitation(
        target="xnnpack:int8|xnnpack:int8_per_tensor",
        case="int_linear/one_layer_twice",
        reason=_BIAS_OF_TWO_USES,
        link=_XNNPACK + "operators/node_visitor.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="xnnpack:int8|xnnpack:int8_per_tensor",
        case="int_conv2d/one_layer_twice",
        reason=_BIAS_OF_TWO_USES,
        link=_XNNPACK + "operators/node_visitor.py",
        stage="run",
        error="Failed to create convolution node",
    ),
    Limitation(
        target="xnnpack:int8",
        case="int_add/channels_last",
        reason="ChannelsLastTaggedReshapePass.is_nhwc_node reads meta['val'][0] of the input "
        "behind a dequantize, which is the first image instead of the tensor. It takes a "
        "channels-last input for contiguous, and the delegate returns a result with permuted "
        "dimensions. Workaround: `x.contiguous()` when the model is exported and when it is run.",
        link=_XNNPACK + "_passes/channels_last_tagged_reshape_pass.py",
        stage="run",
        error="method->execute() failed with error 0x10",
    ),
    Limitation(
        target="xnnpack:int8",
        case="int_add/channels_last_cube",
        reason="ChannelsLastTaggedReshapePass takes a channels-last input behind a dequantize for "
        "contiguous (docs/findings/xnnpack_channels_last_input.py). Workaround: `x.contiguous()` "
        "when the model is exported and when it is run.",
        link=_XNNPACK + "_passes/channels_last_tagged_reshape_pass.py",
        stage="compare",
        error="as if permuted by (0, 2, 3, 1)",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="xnnpack:int8",
        case="half_int8/convolution|half_int8/transposed|half_int8/batch_norm",
        reason="ChannelsLastTaggedReshapePass.insert_copy_q_dq makes a dequantize node without "
        "`out_dtype`, so that the delegate writes float32 into memory of float16 and behind it. "
        "Workaround: quantize the float32 module, and convert its inputs and outputs.",
        link=_XNNPACK + "_passes/channels_last_tagged_reshape_pass.py",
        stage="lower",
        error="output 0 of a delegate is fp32 in the payload of XnnpackBackend, and float16",
    ),
    Limitation(
        target="xnnpack:int8",
        case="int_add/number_that_is_a_sum",
        reason="ChannelsLastTaggedReshapePass.is_nhwc_node reads meta['val'][0] of the input "
        "behind a dequantize, which raises an error for a 0-D tensor, here a sum computed "
        "outside the delegate. Workaround: `keepdim=True`, so that the sum has dimensions.",
        link=_XNNPACK + "_passes/channels_last_tagged_reshape_pass.py",
        stage="lower",
        error="invalid index of a 0-dim tensor",
    ),
    Limitation(
        target="xnnpack:int4|xnnpack:int4_per_channel",
        case="int4_linear/1d",
        reason="is_per_channel_group reads the second size of a block, and the block of a 1-D "
        "activation has one. Workaround: `unsqueeze(0)` before the layer.",
        link=_XNNPACK + "utils/quant_utils.py",
        stage="lower",
        error="list index out of range",
    ),
    Limitation(
        target="xnnpack:int4_per_channel",
        case="int4_linear/odd_columns",
        reason="LinearConfig claims a layer whose weight has one scale a row for any number of "
        "columns, and QuantParams treats the row as one group. NodeVisitor.get_per_channel_dtype "
        "stores it in groups, whose size must be a multiple of 32. Workaround: pad the columns, or "
        "leave the layer in float.",
        link=_XNNPACK + "operators/node_visitor.py",
        stage="lower",
        error="requires group_size to be a multiple of 32",
    ),
    Limitation(
        target="xnnpack:fp32",
        case="prequantized/int8_rows|prequantized/intx*",
        reason="ConvertToLinearPass.create_linear replaces all nodes of a torch.nn.Linear with "
        "linear(x, weight) and takes the integer codes for the weight. The scales are dropped, "
        "and the delegate returns the product with the codes (docs/findings.md). Workaround: "
        "leave the layer to the portable kernels, or quantize with PT2E and `XNNPACKQuantizer`.",
        link=_XNNPACK + "_passes/convert_to_linear.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="xnnpack:int8",
        case="int_in_place/mish",
        reason=_COPY_OF_CONVOLUTION,
        link=_XNNPACK + "_passes/channels_last_tagged_reshape_pass.py",
        stage="run",
        error="Expected shape (1, 4, 4, 5), but received (1, 5, 4, 4)",
    ),
    Limitation(
        target="xnnpack:int8",
        case="int_in_place/celu",
        reason=_COPY_OF_CONVOLUTION,
        link=_XNNPACK + "_passes/channels_last_tagged_reshape_pass.py",
        stage="lower",
        error="KeyError: 'val'",
    ),
]  # fmt: skip
