"""Limitations in the Arm quantizer and TOSA backend that show in the integer profile."""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import FOLDED_NORM

_ARM = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/"
_PULL = "https://github.com/pytorch/executorch/pull/"

_INT32_INDEX = (
    "InsertInt32CastsAfterInt64PlaceholdersPass, part of the quantizer, converts every int64 "
    "input to int32. This operator runs on the CPU and accepts int64 indices only"
)

TOSA_INT: list[Limitation] = [
    Limitation(
        target="tosa:int*",
        case="addmm/parameters",
        reason="ReplaceScalarWithTensorArgPass asks the bias that DecomposeAddmmPass multiplies "
        "by beta for to_tensor(), which a parameter does not have while the quantizer annotates "
        "(docs/findings/arm_addmm_parameters.py). Workaround: "
        "`torch.mm(x, self.weight) + self.bias`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/transforms/"
        "replace_scalar_with_tensor.py",
        stage="quantize",
        error="has no attribute 'to_tensor'",
    ),
    Limitation(
        target="tosa:int",
        case="add/bf16|mm/bf16",
        reason="The partitioner leaves bfloat16 to the CPU, and the quantizer annotates it anyway. "
        "The native quantize_per_tensor has no bfloat16 and aborts the process.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/kernels/quantized/cpu/"
        "op_quantize.cpp",
        stage="run",
        error="Aborted",
        outcome=Status.CRASHED,
    ),
    # The quantizer.
    Limitation(
        target="tosa:int|cortex_m:*",
        case="_native_batch_norm_legit_no_training/beside_a_reader",
        reason=FOLDED_NORM,
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/quantization/pt2e/utils.py",
        stage="quantize",
        error="changed the module before anything was quantized",
    ),
    Limitation(
        target="tosa:int",
        case="max/dim_values_and_indices|max/negative_dim_keepdim|min/dim_values_and_indices",
        reason="ConvertMinMaxPass.check_argmax raises an error when the model uses the indices of "
        "max or min. It runs while the quantizer transforms the model for annotation, where it "
        "could leave the operator unquantized. Workaround: `x.amax(dim)` and `x.argmax(dim)` in "
        "place of `x.max(dim)`.",
        link=_PULL + "8829",
        stage="quantize",
        error="Argmax is not supported by the arm_quantizer",
    ),
    Limitation(
        target="tosa:int",
        case="convolution/transposed_2d_grouped",
        reason="_adjust_weight_qspec_for_conv_transpose keeps axis 0, the input channels, for "
        "grouped weights, and get_bias_qspec derives the bias scales from it: 4 scales for 6 "
        "output channels. The partitioner would leave such a convolution to the CPU, but the "
        "quantizer raises an error first.",
        link=_PULL + "17702",
        stage="quantize",
        error="size of tensor a (6) must match the size of tensor b (4) at non-singleton dimension",
    ),
    Limitation(
        target="tosa:int|tosa:int16",
        case="convolution/2d_unbatched_halved",
        reason="FoldScalarMulIntoConvPass, run before quantization, takes the second dimension of "
        "the result for its channels, which is the height of an image without a batch. "
        "Workaround: add a dimension, `x[None]`.",
        link=_ARM + "_passes/fold_scalar_mul_into_conv_pass.py",
        stage="quantize",
        error="size of tensor a (4) must match the size of tensor b (6) at non-singleton dimension",
    ),
    Limitation(
        target="tosa:int",
        case="gather/dim0|gather/negative_dim|gather/smaller_index|scatter/dim0|scatter/number"
        "|scatter/permutation_rows",
        reason=f"{_INT32_INDEX}: check_gather_args and check_scatter_args refuse the index.",
        link=_ARM + "_passes/insert_int32_casts_after_int64_placeholders.py",
        stage="run",
        error="method->execute() failed with error 0x12",
    ),
    Limitation(
        target="tosa:int",
        case="scatter_add/*",
        reason=f"{_INT32_INDEX}: the edge verifier refuses the index.",
        link=_ARM + "_passes/insert_int32_casts_after_int64_placeholders.py",
        stage="lower",
        error="taking Tensor inputs with mismatched dtypes",
    ),
    Limitation(
        target="tosa:int",
        case="grid_sampler_2d/bilinear_zeros",
        reason="_fixed_input_qspec_ops and _fixed_output_qspec_ops give the image and the result "
        "of grid_sampler the scale 1/127, which VGF's shader needs, whatever the calibration "
        "observed: values beyond -1 and 1 are clipped. Workaround: `F.grid_sample(x / limit, "
        "grid) * limit`, where limit is the largest absolute value of the image.",
        link=_ARM + "quantizer/quantization_annotator.py",
        stage="quantize",
        error="rounding the values to its codes makes an error",
    ),
    # The partitioner.
    Limitation(
        target="tosa:int",
        case="convolution/1d_unbatched|convolution/2d_unbatched|convolution/2d_same_even_kernel",
        reason="The convolution is decomposed after quantization, so its unsqueeze or pad has no "
        "quantize after it. TOSAPartitioner._detag_boundary_nodes still leaves that node in a "
        "partition with the dequantize before it: a delegate declared to return float32 returns "
        "int8.",
        link=_ARM + "tosa/partitioner.py",
        stage="run",
        error=" bytes int8(1, 3, ",
    ),
    Limitation(
        target="tosa:int",
        case="sigmoid/int32_promotes|sqrt/int32_promotes|exp/int64_promotes|div/int64_promotes",
        reason="CheckProperQuantization counts an integer input as quantized, so a floating-point "
        "function of an int32 tensor is delegated. Without input quantization parameters "
        "InsertTableOpsPass creates no table, and the floating-point operator reaches TOSA. "
        "Workaround: `x.to(torch.float32)` before it.",
        link=_ARM + "operator_support/tosa_supported_operators.py",
        stage="lower",
        error="Unsupported dtype torch.int32 for",
    ),
    Limitation(
        target="tosa:int",
        case="eq/bool",
        reason="TOSA's EQUAL does not support bool. CheckFPComparisonInputs refuses such "
        "comparisons in the FP profile only; in this profile they are delegated and lowering "
        "fails. Workaround: compare with `torch.logical_xor`.",
        link=_PULL + "22558",
        stage="lower",
        error="Unsupported dtype torch.bool for EQUAL",
    ),
    # Passes.
    Limitation(
        target="tosa:int",
        case="relu/int32",
        reason="ConvertToClampPass clamps at the float 0.0, which makes the result of an int32 "
        "relu float32. DecomposeTOSAUnsupportedClampPass then does not recognize it as int32. "
        "Workaround: `torch.maximum(x, torch.zeros_like(x))`.",
        link=_ARM + "_passes/convert_to_clamp_pass.py",
        stage="lower",
        error="doesn't support tensor TosaArg(name='aten_clamp_default', dtype=FP32",
    ),
    Limitation(
        target="tosa:int",
        case="neg/int8",
        reason="get_negate_zero_points (op_tosa_neg.py) requires quantization parameters of every "
        "int8 tensor, including a tensor that is int8 in the model itself.",
        link=_ARM + "operators/op_tosa_neg.py",
        stage="lower",
        error="No input quantization parameter found in node tosa_negate_default",
    ),
    Limitation(
        target="tosa:int",
        case="cat/promotes",
        reason="The quantizer quantizes the floating-point operand and the result of aten.cat, "
        "but not the int32 operand. No pass rescales it, so CONCAT gets tensors of two dtypes. "
        "Workaround: convert the integers first.",
        link=_ARM + "quantizer/quantization_annotator.py",
        stage="lower",
        error="CONCAT requires matching dtypes, got torch.int8 and torch.int32",
    ),
    Limitation(
        target="tosa:int",
        case="copy/converts",
        reason="RemoveNoopPass replaces aten.copy with its source even if the dtypes differ: the "
        "delegate returns the int32 source where the program declares its quantized int8 value. "
        "Workaround: `.to(dtype)` instead of the copy.",
        link=_ARM + "_passes/remove_noop_pass.py",
        stage="run",
        error="bytes int32(3, 5) for a planned tensor of 15 bytes torch.int8(3, 5)",
    ),
    Limitation(
        target="tosa:int",
        case="index/negative_indices",
        reason="DecomposeIndexTensorToGatherPass passes indices on unchanged. TOSA's GATHER does "
        "not count negative indices from the end and leaves the result unpredictable. "
        "Workaround: add the size to negative indices.",
        link=_ARM + "_passes/decompose_index_tensor_to_gather_pass.py",
        stage="run",
        error="the reference model ended with GraphStatus.TOSA_UNPREDICTABLE",
    ),
    Limitation(
        target="tosa:int",
        case="index_put/accumulate",
        reason="AccumulateIndexPutPass, run before quantization, turns an accumulating index_put "
        "into a gather, an addition and a scatter: of several values for one index only one is "
        "added. TOSA also leaves a SCATTER that writes an index twice unpredictable.",
        link=_ARM + "_passes/accumulate_index_put_pass.py",
        stage="quantize",
        error="the quantizer's rewriting changed the module",
    ),
    Limitation(
        target="tosa:int",
        case="elu/two_of_one_tensor",
        reason="ConvertELUParamsPass replaces alpha, scale and input_scale of every ELU by the "
        "same numbers and keeps the values in node.meta. FuseDuplicateUsersPass compares "
        "arguments only, and gives all ELUs of a tensor the values of the first "
        "(docs/findings/arm_two_elus.py). Workaround: `F.elu(x * 1.0, 0.25)`.",
        link=_ARM + "_passes/convert_elu_params.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:int",
        case="cosine_similarity/last_dim|cosine_similarity/large_eps",
        reason="DecomposeCosineSimilarityPass reads dim and eps as keyword arguments, and a "
        "program passes them by position: the defaults, 1 and 1e-8, are used "
        "(docs/findings/arm_cosine_similarity.py). Workaround: "
        "`(F.normalize(x, dim=-1) * F.normalize(y, dim=-1)).sum(-1)`.",
        link=_ARM + "_passes/decompose_cosine_similarity_pass.py",
        stage="quantize",
        error="the quantizer's rewriting changed the module",
    ),
    Limitation(
        target="tosa:int",
        case="max/indices_alone",
        reason="ConvertMinMaxPass takes the only reader of a max for its values and replaces it by "
        "an amax, also where it reads the indices (docs/findings/arm_max_indices.py). "
        "Workaround: `x.argmax(1)`.",
        link=_ARM + "_passes/convert_minmax_pass.py",
        stage="quantize",
        error="the quantizer's rewriting changed the module",
    ),
    Limitation(
        target="tosa:int",
        case="_to_copy/beyond_int32_and_back",
        reason="ConvertInt64OutputOpsToInt32Pass, part of the quantizer, turns every cast to int64 "
        "into one to int32, whatever the values (docs/findings/arm_cast_to_int64.py). "
        "Workaround: `.trunc()` instead of the cast.",
        link=_ARM + "_passes/convert_int64_output_ops_to_int32.py",
        stage="quantize",
        error="the quantizer's rewriting changed the module",
    ),
    Limitation(
        target="tosa:int",
        case="linalg_vector_norm/inf_dim",
        reason="DecomposeLinalgVectorNormPass, part of the quantizer, takes the orders 1 and 2, "
        "and raises ValueError for others. Workaround: `x.abs().amax(1)`.",
        link=_ARM + "_passes/decompose_linalg_vector_norm_pass.py",
        stage="quantize",
        error="ValueError: The order of inf",
    ),
    Limitation(
        target="tosa:int",
        case="lstm/projection",
        reason="DecomposeLstmPass, part of the quantizer, reads four weights per direction. With "
        "proj_size there are five, and the hidden state is smaller than the cell state.",
        link=_ARM + "_passes/decompose_lstm_pass.py",
        stage="quantize",
        error="Attempting to broadcast a dimension of length 6",
    ),
    Limitation(
        target="tosa:int",
        case="matmul/softmax_by_weight",
        reason="A pass that traces the module again, here DecomposeSoftmaxPass, gives a transposed "
        "parameter symbolic sizes, and DecomposeMatmulPass makes a view of these sizes, whose "
        "device the quantizer does not find. Workaround: "
        "`F.linear(torch.softmax(x, -1), self.weight)`.",
        link=_ARM + "_passes/decompose_matmul.py",
        stage="quantize",
        error="with different device inputs",
    ),
    Limitation(
        target="tosa:int",
        case="masked_fill/minus_inf",
        reason="ReplaceInfAndLimitValuesPass, run before quantization, replaces infinities with "
        "-256 and 255 so that observers find a range. A result that should be infinite is -256.",
        link=_ARM + "_passes/replace_inf_and_limit_values_pass.py",
        stage="quantize",
        error="got -256, expected -inf",
    ),
    Limitation(
        target="tosa:int",
        case="_log_softmax/large_logits",
        reason="DecomposeSoftmaxPass, run before quantization, computes log(softmax(x)): where "
        "the softmax underflows, the result is -inf instead of x - max - log(sum). Workaround: "
        "`x - x.logsumexp(dim, keepdim=True)`.",
        link=_ARM + "_passes/decompose_softmax_pass.py",
        stage="quantize",
        error="looks infinite",
    ),
    # Fallback nodes around the delegates.
    Limitation(
        target="tosa:int",
        case="_to_copy/fp32_to_fp16_overflows",
        reason="The quantizer quantizes the float16 result and leaves it to the CPU, where "
        "quantize_val (kernels/quantized/cpu/op_quantize.cpp) converts infinity to int64 before "
        "it clamps: on x86 +inf becomes the lowest quantized value.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/kernels/quantized/cpu/"
        "op_quantize.cpp",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
]
