"""Limitations of programs with settings, where the recipe without them has none."""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import copy_limitation
from suites.ops.limitations import LIMITATIONS as OPS
from suites.quant.limitations import FILTERED_CONVOLUTION, LIMITATIONS as QUANT

LIMITATIONS: list[Limitation] = [
    copy_limitation(
        QUANT,
        "tosa:int",
        "int_shared/relu_then_cat",
        "varied/int_conv2d_relu|varied/int_linear_relu",
        target="tosa:int+*symmetric_codes*",
        error="codes are not the quantized graph's",
    ),
    Limitation(
        case="varied/permute_copy_to_channels_last_and_back",
        target="tosa:fp+*skip_dim_order*",
        reason="Without dim orders, a number becomes a constant tensor by aten._to_copy, and its "
        "fake tensor keeps its value. MatchArgRanksPass reshapes it with tosa.RESHAPE; "
        "torch computes operators on constants for real, and RESHAPE has no kernel.",
        stage="lower",
        error="could not find kernel for tosa.RESHAPE",
    ),
    Limitation(
        case="varied/nonzero_masked_select",
        target="metal:fp32+*core_aten_exceptions*",
        reason="MetalPartitioner delegates masked_select, whose size depends on data. Inductor "
        "makes symbols for it that no output of the partition has, and refuses the partition.",
        stage="lower",
        error="PendingUnbackedSymbolNotFound",
    ),
    Limitation(
        case="varied/int_conv2d_*|varied/int_model_classifier",
        target="xnnpack:int8+*layer_types*|xnnpack:int8_dynamic+*layer_types*",
        reason=FILTERED_CONVOLUTION,
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack/quantizer/"
        "xnnpack_quantizer_utils.py",
        stage="quantize",
        error="set_module_type(Conv2d) has no effect",
    ),
    copy_limitation(
        OPS,
        "tosa:int",
        "index_put/accumulate",
        "stored/index_put_accumulate_0|stored/index_put_accumulate_2|stored/index_add_dim0_0"
        "|stored/index_add_dim0_2",
        target="tosa:fp",
        stage="run",
        error="TOSA_UNPREDICTABLE",
        outcome=Status.FAILED,
    ),
    copy_limitation(
        OPS,
        "tosa:int",
        "index/negative_indices",
        "stored/index_negative_indices_0",
        target="tosa:fp",
        error="TOSA_UNPREDICTABLE",
    ),
    Limitation(
        target="tosa:fp",
        case="stored/add_scalars_*|stored/gt_scalars_*",
        reason="UnsqueezeScalarPlaceholdersPass replaces a parameter without dimensions by a "
        "tensor that is no parameter, and torch refuses the program. Workaround: a parameter of "
        "shape (1,).",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/_passes/"
        "unsqueeze_scalar_placeholders_pass.py",
        stage="lower",
        error="is not an instance of torch.nn.Parameter",
    ),
    copy_limitation(
        OPS,
        "mlx:fp32",
        "convolution/2d_channels_last_weight",
        "stored/add_transposed_1|stored/add_channels_last_broadcast_1"
        "|stored/mul_channels_last_mixed_1",
    ),
    Limitation(
        target="mlx:fp32",
        case="stored/slice_scatter_*_1",
        reason="_slice_scatter_handler (ops.py) writes into its operand where it stands. The "
        "runtime refuses writes to a constant. Workaround: `operand + 0.0`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/mlx/ops.py",
        stage="run",
        error="field dst is tensor slot 0, a constant",
    ),
    Limitation(
        target="xnnpack:fp32",
        case="stored/addmm_beta_alpha_1",
        reason="AddmmVisitor reads neither factor, and AddmmConfig does not check them "
        "(docs/findings/xnnpack_addmm_factors.py). Workaround: "
        "`torch.mm(x, self.weight) * 3 + self.bias * 10`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack/operators/"
        "op_addmm.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    copy_limitation(OPS, "xnnpack:fp32", "linear/bias_matrix", "stored/addmm_plain_1"),
    copy_limitation(
        OPS,
        "tosa:int",
        "addmm/parameters",
        "attribute/addmm|stored/addmm_*_[12]|stored/scaled_dot_product_attention_*_[123]",
    ),
    copy_limitation(
        OPS,
        "cortex_m:int8",
        "matmul/parameter",
        "stored/matmul_[2bdv]*|stored/matmul_attention_scores_1",
    ),
    copy_limitation(
        OPS, "cortex_m:int8", "index_put/mask_of_pixels", "stored/index_put_mask_of_uneven_*"
    ),
    copy_limitation(
        QUANT,
        "tosa:int",
        "int_in_place/set_part_of_copy",
        "stored/index_put_broadcast_value_1",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    copy_limitation(
        QUANT,
        "tosa:int",
        "int_moved/rows_of_parameter_added",
        "stored/add_transposed_1",
        error="24 bytes int8(6, 4) for a planned tensor of 24 bytes torch.int8(4, 6)",
    ),
    copy_limitation(QUANT, "tosa:int", "int_stack/of_parameter_last", "stored/stack_last_dim_*"),
    Limitation(
        target="tosa:int",
        case="stored/index_put_broadcast_value_2|stored/index_put_constant_mid_1"
        "|stored/index_put_first_dim_2",
        reason="The quantizer leaves the copy of a parameter in float32, and "
        "CheckProperQuantization does not ask about index_put: the partitioner takes it with a "
        "float operand, and the arithmetic of the dequantization behind it is no integer operator. "
        "Workaround: write to the parameter without a copy, `self.kept.index_put(indices, x)`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/operator_support/"
        "tosa_supported_operators.py",
        stage="lower",
        error="doesn't support float32 for MUL",
    ),
    copy_limitation(
        QUANT,
        "xnnpack:int8",
        "int_add/channels_last",
        "stored/add_channels_last_broadcast_0|stored/mul_channels_last_mixed_0",
        error="Propagating input shapes failed",
    ),
    copy_limitation(QUANT, "xnnpack:int8", "int_add/number_that_is_a_sum", "stored/add_scalars_*"),
    copy_limitation(
        QUANT,
        "xnnpack:int8",
        "int_shared/first_token",
        "stored/scaled_dot_product_attention_bool_mask_*",
        error="not implemented for 'Bool'",
    ),
    copy_limitation(OPS, "tosa:fp", "norm_given/conv2d_mean", "attribute/batch_norm"),
    copy_limitation(OPS, "metal:fp32", "einsum/contract", "stored/bmm_transposed_input_0"),
]
