"""Limitations of the integer suite."""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import FOLDED_NORM, copy_limitation, copy_to_vgf
from suites.ops.limitations.coreml import COREML
from suites.ops.limitations.coreml_int8 import COREML_INT8
from suites.ops.limitations.cortex_m import CORTEX_M

_XNNPACK = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack/"
_ARM = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/"

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

_OPENVINO = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/openvino/"
_OPENVINO_LIMITATIONS = [
    Limitation(
        target="openvino:*",
        case="int_linear/dynamic_batch",
        reason="The delegate gives OpenVINO output tensors of the planned sizes, which are the "
        "largest ones of dynamic dimensions, and never resizes the outputs of the program "
        "(docs/findings.md). Workaround: export for one size.",
        link=f"{_OPENVINO}runtime/OpenvinoBackend.cpp",
        stage="compare",
        error="expected (",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="openvino:*",
        case="int_shared/norm_beside_reader",
        reason=FOLDED_NORM,
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/quantization/pt2e/utils.py",
        stage="quantize",
        error="rewriting changed the module",
    ),
    Limitation(
        target="openvino:*",
        case="int_model/lstm*|int_model/gru|int_model/rnn",
        reason="GraphConverter.create_nncf_graph reads the shape of every value from its node, "
        "and the list of states that a recurrent layer returns has none. Workaround: cells in "
        "place of layers.",
        link="https://github.com/openvinotoolkit/nncf/blob/v3.4.0/src/nncf/experimental/torch/fx/"
        "nncf_graph_builder.py",
        stage="quantize",
        error="'NoneType' object is not iterable",
    ),
    Limitation(
        target="openvino:int8",
        case="int_island/layer_norm",
        reason="OpenVINOQuantizer quantizes the weight of a layer norm along axis 1 as if it were "
        "an activation (_get_torch_ao_qspec_from_nncf_config_for_ptq), and the weight has one "
        "axis. Workaround: QuantizationMode.INT8_TRANSFORMER.",
        link=f"{_OPENVINO}quantizer/quantizer.py",
        stage="quantize",
        error="Dimension out of range",
    ),
    Limitation(
        target="openvino:*",
        case="int_shared/add_to_itself_then_cat",
        reason="OpenVINOQuantizer._get_edge_or_node looks an operand up in Node.all_input_nodes, "
        "which has each node once, by its number among the arguments: `x + x` has one. "
        "Workaround: `2 * x`.",
        link=f"{_OPENVINO}quantizer/quantizer.py",
        stage="quantize",
        error="IndexError: list index out of range",
    ),
    Limitation(
        target="openvino:*",
        case="int_shared/sums_of_floats_and_integers",
        reason="OpenVINOQuantizer does not ask for the dtype of an operand: it observes integers "
        "with a HistogramObserver, which takes floats only.",
        link=f"{_OPENVINO}quantizer/quantizer.py",
        stage="quantize",
        error='"histogram_cpu" not implemented for',
    ),
    Limitation(
        target="openvino:*",
        case="int_conv2d/channels_last",
        reason="The delegate gives OpenVINO the memory of a channels-last tensor with its logical "
        "sizes and without strides (create_ov_tensor in runtime/OpenvinoBackend.cpp), and "
        "lowering drops the dim orders of the graph (docs/findings.md). Workaround: contiguous "
        "inputs.",
        link=f"{_OPENVINO}preprocess.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
]

LIMITATIONS: list[Limitation] = [
    *_OPENVINO_LIMITATIONS,
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
        target="xnnpack:int8*|tosa:int|cortex_m:*|coreml:int8",
        case="int_shared/norm_beside_reader",
        reason=FOLDED_NORM,
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/quantization/pt2e/utils.py",
        stage="quantize",
        error="changed the module before anything was quantized",
    ),
    Limitation(
        target="mlx:fp32",
        case="prequantized/mxfp8_decoder",
        reason="The module decodes its weight with an operator of "
        "executorch.extension.llm.export.mx, which 1.4.1 does not have.",
        stage="build",
        error="executorch.extension.llm.export.mx",
        shown_as=Status.UNSUPPORTED,
        until="1.5.0",
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
        target="tosa:int",
        case="int_conv2d/same_even_kernel_relu",
        reason="The convolution is decomposed after quantization, so its pad has no quantize "
        "after it. TOSAPartitioner._detag_boundary_nodes still leaves the pad in a partition "
        "with the dequantize before it: a delegate declared to return float32 returns int8.",
        link=_ARM + "tosa/partitioner.py",
        stage="run",
        error=" bytes int8(1, 1, 9, 3) for a planned tensor of 108 bytes",
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
        target="tosa:fp",
        case="prequantized/intx4_groups",
        reason="TOSAPartitioner delegates a linear layer without checking its weight, which "
        "dequantize_affine computes outside the delegate. RewriteConvPass._rewrite_weight "
        "permutes the weight at compile time and needs it to be constant.",
        link=_ARM + "_passes/rewrite_conv_pass.py",
        stage="lower",
        error="unsupported param type, call_function",
    ),
    Limitation(
        target="tosa:int",
        case="int_model/lstm_cells",
        since="1.5.0",
        reason="DecomposeLstmPass._decompose_cell reads the size of the state from "
        "`h_prev.meta['val'].shape`. The getitem of an earlier cell, which the pass has replaced, "
        "has the meta of that cell's node: a tuple (docs/findings.md). Workaround: torch.nn.LSTM.",
        link=_ARM + "_passes/decompose_lstm_pass.py",
        stage="quantize",
        error="'tuple' object has no attribute 'shape'",
    ),
    *(
        Limitation(
            target=target,
            case=case,
            reason="The quantize and dequantize nodes copy a tensor, and PT2E inserts them where "
            "an operator writes to the tensor or to a slice of it: the write reaches the copy "
            "alone (docs/findings.md). Workaround: torch.cat, or another operator that writes "
            "nothing.",
            link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/quantization/pt2e/prepare.py",
            stage="quantize",
            error="loses the write of",
        )
        for target, case in (
            (
                "xnnpack:int8*|tosa:int|cortex_m:*|coreml:int8|openvino:int8",
                "int_in_place/copy_to_part|int_in_place/set_column|int_in_place/zero_row",
            ),
            ("xnnpack:int8*|cortex_m:*|coreml:int8|openvino:int8", "int_in_place/add_to_part"),
        )
    ),
    Limitation(
        target="tosa:int",
        case="int_in_place/add_to_part",
        reason="RewriteInplaceArithmeticPass, run before quantization, replaces add_, sub_, mul_ "
        "and div_ with operators that do not write, so the slice alone is changed "
        "(docs/findings.md). Workaround: torch.cat.",
        link=_ARM + "_passes/rewrite_inplace_arithmetic_pass.py",
        stage="quantize",
        error="the quantizer's rewriting changed the module",
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
    Limitation(
        target="tosa:int",
        case="int_in_place/hardsigmoid",
        reason="Arm's quantizer does not know hardsigmoid_, so that it stays outside of the "
        "delegate, and the runtime has no kernel for hardsigmoid. Workaround: `inplace=False`.",
        link=_ARM + "quantizer/quantizer_support.py",
        stage="run",
        error="no kernel aten::hardsigmoid.out",
    ),
    Limitation(
        target="cortex_m:*",
        case="int_in_place/add_number|int_in_place/mul_number|int_in_place/sqrt",
        reason="ScalarsToAttributePass makes tensors of the numbers of add and mul, not of add_ "
        "and mul_. _get_quantized_add_replacement and _get_quantized_mul_replacement then read "
        "the parameters that a number does not have. Workaround: `y = y + 0.5`.",
        link=_ARM + "_passes/scalars_to_attribute_pass.py",
        stage="lower",
        error="KeyError: 1",
    ),
    Limitation(
        target="cortex_m:*",
        case="int_in_place/celu|int_in_place/threshold",
        reason="A convolution of Cortex-M returns a channels-last tensor. Operators behind it "
        "that stay on the CPU get operands of two dim orders, which portable kernels refuse.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/kernels/portable/cpu/util/"
        "tensor_util_portable.cpp",
        stage="run",
        error="input tensors have different dim orders",
    ),
    copy_limitation(
        CORTEX_M, "cortex_m:int8", "where/computed_condition", "int_in_place/masked_fill",
        target="cortex_m:*",
    ),
    Limitation(
        target="cortex_m:*",
        case="int_conv2d/channel_of_zeros",
        reason="The observers of CortexMQuantizer have no `eps` beyond that of float32. The bias "
        "of a channel whose weights are all small has such small steps that int32 cannot hold it "
        "(docs/findings.md). Workaround: add 1e-4 to one weight of such a channel.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/cortex_m/quantizer/"
        "quantization_configs.py",
        stage="quantize",
        error="rounding the values of channel 1 to its codes",
    ),
    Limitation(
        target="cortex_m:*",
        case="int_linear/two_users",
        reason="QuantizedClampActivationPass turns a relu that is not fused into a clamp at the "
        "zero point, but not behind a linear layer, whose metadata is not int8 yet: the relu "
        "sets codes below 0 to 0. Workaround: `torch.relu(y + 0)` behind the layer.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/cortex_m/passes/"
        "quantized_clamp_activation_pass.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="cortex_m:*",
        case="int_model/attention",
        reason="Behind a linear layer, whose metadata is not int8 yet, a batched matrix product is "
        "traced with operands of two types.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/cortex_m/passes/"
        "aten_to_cortex_m_pass.py",
        stage="lower",
        error="expected scalar type torch.int8 but found torch.int32",
    ),
    copy_limitation(
        COREML_INT8, "coreml:int8", "add/int32", "int_shared/sums_of_floats_and_integers"
    ),
    copy_limitation(
        COREML, "coreml:fp32", "lerp/number", "int_in_place/lerp", target="coreml:int8"
    ),
    Limitation(
        target="openvino:int8",
        case="int_in_place/masked_fill",
        reason="OpenVINO's quantizer observes every operand of masked_fill_, and "
        "HistogramObserver has no histogram of a mask. Workaround: `torch.where`.",
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/quantization/pt2e/observer.py",
        stage="quantize",
        error='"linspace_cpu" not implemented for \'Bool\'',
    ),
    copy_limitation(
        COREML, "coreml:fp32", "linear/dynamic_batch", "int_linear/dynamic_batch",
        target="coreml:int8",
    ),
    copy_limitation(
        CORTEX_M, "cortex_m:int8", "convolution/2d_dilation", "int_conv2d/dilation",
        target="cortex_m:*",
    ),
    copy_limitation(
        CORTEX_M, "cortex_m:int8", "slice_copy/channels_last", "int_shared/halves_of_a_conv",
        target="cortex_m:*",
    ),
]  # fmt: skip
LIMITATIONS += copy_to_vgf(LIMITATIONS)
