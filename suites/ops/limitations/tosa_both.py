"""Limitations in the Arm TOSA backend that show in both profiles, ``tosa:fp`` and ``tosa:int``."""

from __future__ import annotations

from harness import Limitation, Status

_ARM = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/"
_EXIR = "https://github.com/pytorch/executorch/blob/v1.5.1/exir/"
_TOSA = "https://github.com/arm/tosa-specification/blob/main/"
_BOTH = "tosa:fp|tosa:int"
_NORMALIZE = _ARM + "_passes/normalize_index_put_none_indices_pass.py"

_RANK_0 = (
    "InsertConstShapesPass creates CONST_SHAPE(()) for a reshape to rank 0, which TOSA permits. "
    "Its result is an empty int[], which EdgeOpArgValidator "
    "(exir/verification/arg_validator.py), run after each Arm pass, takes for a list of results: "
    "next() on it raises StopIteration. Workaround: `keepdim=True`, so that the result has a "
    "dimension."
)
_UNUSED_INPUT = (
    "ConvertFullLikeToFullPass leaves the input tensor without users. "
    "TOSABackend._preprocess_module does not serialize such a placeholder, but the program still "
    "passes it, and the reference model refuses extra inputs (in the Arm runner too)."
)
_BOOL_ONLY = (
    "TOSA's logical operators support bool only. The partitioner's support lists do not check "
    "dtypes, and no pass casts the operands to bool. Workaround: convert the operands, `x != 0`."
)

TOSA_BOTH: list[Limitation] = [
    Limitation(
        target=_BOTH,
        case="amax/all|any/all|mean/all|one_hot/classes|select_copy/to_scalar|sum/all",
        reason=_RANK_0,
        link=_EXIR + "verification/arg_validator.py",
        stage="lower",
        error="StopIteration",
    ),
    Limitation(
        target="tosa:fp",
        case="matmul/dot",
        reason=_RANK_0,
        link=_EXIR + "verification/arg_validator.py",
        stage="lower",
        error="StopIteration",
    ),
    Limitation(
        target="tosa:int",
        case="var/all",
        reason="DecomposeVarPass multiplies the sum by a tensor of shape [1], so the variance of "
        "all elements gets that shape (docs/findings/arm_var_of_all.py). Lowering also fails, "
        "for a tensor of rank 0 that has no dim order. Workaround: `x.var((0, 1), "
        "keepdim=True).reshape(())`.",
        link=_ARM + "_passes/decompose_var_pass.py",
        stage="quantize",
        error="output 0: shape (1,), expected ()",
    ),
    Limitation(
        target=_BOTH,
        case="fill/number|full_like/fp32|full_like/other_dtype|full_like/channels_last"
        "|ones_like/int32",
        reason=_UNUSED_INPUT,
        link=_ARM + "tosa/backend.py",
        stage="run",
        error="TOSA graph has 0 inputs and 1 outputs, the program passes 2 arguments",
    ),
    Limitation(
        target="tosa:fp",
        case="fill/from_tensor",
        reason=_UNUSED_INPUT,
        link=_ARM + "tosa/backend.py",
        stage="run",
        error="TOSA graph has 1 inputs and 1 outputs, the program passes 3 arguments",
    ),
    Limitation(
        target="tosa:int",
        case="full_like/to_int32",
        reason=_UNUSED_INPUT,
        link=_ARM + "tosa/backend.py",
        stage="run",
        error="TOSA graph has 0 inputs and 1 outputs, the program passes 2 arguments",
    ),
    *(
        Limitation(
            target=target,
            case="avg_pool2d/ceil_mode_divisor",
            reason="DecomposeAvgPool2dPass multiplies the mean by kernel size / divisor. At the "
            "edge, where ceil_mode lets a window end outside, that mean is over the elements "
            "inside only (docs/findings/arm_avg_pool_ceil.py). Workaround: "
            "`F.avg_pool2d(F.pad(x, (0, 1, 0, 1)), 2, 2, divisor_override=3)`.",
            link=_ARM + "_passes/decompose_avg_pool2d_pass.py",
            stage=stage,
            error=error,
            outcome=outcome,
        )
        for target, stage, error, outcome in (
            ("tosa:fp", "compare", "elements exceed the bound", Status.MISMATCH),
            ("tosa:int", "quantize", "the quantizer's rewriting changed the module", Status.FAILED),
        )
    ),
    *(
        Limitation(
            target=target,
            case="avg_pool2d/unbatched",
            reason="DecomposeAvgPool2dPass reads four sizes, which an input without a batch does "
            "not have. Workaround: add a dimension, `x[None]`.",
            link=_ARM + "_passes/decompose_avg_pool2d_pass.py",
            stage=stage,
            error="not enough values to unpack (expected 4, got 3)",
        )
        for target, stage in (("tosa:fp", "lower"), ("tosa:int", "quantize"))
    ),
    Limitation(
        target=_BOTH,
        case="cumsum/to_int32",
        reason="DecomposeCumsumPass makes a depthwise convolution of a cumulative sum, also of "
        "integers, for which TOSA has none. Workaround: `x.float().cumsum(1).to(torch.int32)`.",
        link=_ARM + "_passes/decompose_cumsum_pass.py",
        stage="lower",
        error="(TOSA op: DEPTHWISE_CONV2D)",
    ),
    Limitation(
        target=_BOTH,
        case="logical_and/bool|logical_or/bool",
        reason="MatchArgRanksPass lists tosa.LOGICAL_AND and tosa.LOGICAL_OR but not "
        "aten.logical_and and aten.logical_or, and its last run is before ExirToTosaPass. "
        "Operands keep different ranks, and TOSA broadcasts equal ranks only. Workaround: "
        "reshape the operands to one rank.",
        link=_ARM + "_passes/match_arg_ranks_pass.py",
        stage="run",
        error="Invalid TOSA graph",
    ),
    Limitation(
        target=_BOTH,
        case="logical_or/int32",
        reason=_BOOL_ONLY,
        link=_ARM + "operator_support/tosa_profile_supported_op_lists.py",
        stage="lower",
        error="Unsupported dtype torch.int32 for LOGICAL_OR",
    ),
    Limitation(
        target=_BOTH,
        case="minimum/bool",
        reason="TOSA's MINIMUM does not support bool. The partitioner delegates aten.minimum of "
        "any dtype, and PromoteBoolOperandsPass promotes only the operands of aten.mul. "
        "Workaround: `torch.logical_and(x, y)`.",
        link=_ARM + "_passes/promote_bool_operands_pass.py",
        stage="lower",
        error="Unsupported dtype torch.bool for MINIMUM",
    ),
    Limitation(
        target=_BOTH,
        case="mm/int32",
        reason="TOSA's MATMUL supports int8, int16 and floating point but not int32; the "
        "partitioner delegates aten.mm of any dtype.",
        link=_TOSA + "tosa.xml",
        stage="lower",
        error="got torch.int32 (TOSA op: MATMUL)",
    ),
    Limitation(
        target=_BOTH,
        case="clamp/min_above_max",
        reason="rewrite_clamp passes min and max to TOSA's CLAMP, which forbids min > max, where "
        "torch.clamp returns max. The partitioner does not check the bounds. Workaround: a clamp "
        "whose min is not above its max.",
        link=_ARM + "_passes/aten_to_tosa_activation_functions.py",
        stage="lower",
        error="max_val must be greater than or equal to min_val",
    ),
    Limitation(
        target=_BOTH,
        case="constant_pad_nd/negative_crops",
        reason="RewritePadPass passes a negative padding to TOSA's PAD, which forbids it, instead "
        "of slicing. The partitioner does not check the padding. Workaround: slice the tensor "
        "instead.",
        link=_ARM + "_passes/rewrite_pad.py",
        stage="lower",
        error="Expected padding values to be non-negative, got -1 and 2",
    ),
    Limitation(
        target=_BOTH,
        case="convolution/2d_weight_is_input",
        reason="RewriteConvPass._rewrite_weight permutes the weight at compile time and needs it "
        "to be constant. ConvolutionSupported does not check this, so a convolution whose weight "
        "is computed is delegated and lowering fails.",
        link=_ARM + "_passes/rewrite_conv_pass.py",
        stage="lower",
        error="unsupported param type, placeholder",
    ),
    Limitation(
        target=_BOTH,
        case="repeat/zero_times",
        reason="The result is empty, and TOSA has no dimensions of size 0. The partitioner "
        "delegates the node, and TILE refuses a multiple of 0.",
        link=_TOSA + "chapters/introduction.adoc",
        stage="lower",
        error="TILE multiples must be positive",
        shown_as=Status.UNSUPPORTED,
    ),
    Limitation(
        target=_BOTH,
        case="slice_copy/to_empty",
        reason="The result is empty, and TOSA has no dimensions of size 0. The partitioner "
        "delegates the node, and SLICE refuses a size of 0.",
        link=_TOSA + "chapters/introduction.adoc",
        stage="lower",
        error="Expected start + size values between",
        shown_as=Status.UNSUPPORTED,
    ),
    *(
        Limitation(
            target="tosa:*",
            case=case,
            reason="RewriteSlicePass and DecomposeStridedSliceCopyPass take a negative start "
            "modulo the size of the dimension, where ATen clamps it to the first element "
            "(docs/findings/arm_slice_before_first.py). Workaround: "
            "`x[:, max(-7, -x.shape[1]) : -3]`.",
            link=_ARM + "_passes/rewrite_slice.py",
            stage=stage,
            error=error,
            outcome=outcome,
        )
        for case, stage, error, outcome in (
            ("slice_copy/from_before_first", "compare", "exceed the bound", Status.MISMATCH),
            ("slice_copy/step_from_before_first", "run", "for a planned tensor of", Status.FAILED),
        )
    ),
    # Indices and masks of index_put.
    Limitation(
        target="tosa:*",
        case="index_put/adjacent",
        reason="NormalizeIndexPutNoneIndicesPass takes the dimension of several indices for the "
        "first one of the values, where PyTorch keeps it in place if the indices are adjacent "
        "(docs/findings/arm_index_put_adjacent.py). Workaround: permute the indexed dimensions to "
        "the front.",
        link=_NORMALIZE,
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    *(
        Limitation(
            target="tosa:*",
            case=case,
            reason="NormalizeIndexPutNoneIndicesPass counts one dimension for each index, also for "
            "a mask of several (docs/findings/arm_index_put_mask.py). Workaround: "
            "`x.masked_fill(mask, 0.0)`.",
            link=_NORMALIZE,
            stage=stage,
            error=error,
            outcome=outcome,
        )
        for case, stage, error, outcome in (
            ("index_put/mask_of_pixels", "compare", "exceed the bound", Status.MISMATCH),
            (
                "index_put/mask_of_uneven_pixels",
                "lower",
                "but expected shape should be broadcastable to",
                Status.FAILED,
            ),
        )
    ),
    Limitation(
        target="tosa:*",
        case="index_put/constant_negative",
        reason="RewriteIndexPutPass passes indices on unchanged. TOSA's SCATTER does not count "
        "negative indices from the end, and the reference model aborts. Workaround: `index % "
        "size`.",
        link=_ARM + "_passes/rewrite_index_put_pass.py",
        stage="run",
        error="the TOSA reference model was ended by SIGABRT",
    ),
    # Dtypes.
    Limitation(
        target="tosa:*",
        case="add/bool",
        reason="TOSA's ADD does not support bool. The partitioner delegates aten.add of any dtype, "
        "and PromoteBoolOperandsPass promotes only the operands of aten.mul. Workaround: "
        "`torch.logical_or(x, y)`.",
        link=_ARM + "_passes/promote_bool_operands_pass.py",
        stage="lower",
        error="Unsupported dtype torch.bool for ADD",
    ),
    *(
        Limitation(
            target=target,
            case=case,
            reason="MatchArgDtypePass takes the condition and the first value of a where for its "
            "two values: if the first value is bool, the second becomes bool, and the delegate "
            "returns bytes of bool. If the second value is bool and the first a code, the second "
            "becomes a code without scale and zero point (docs/findings/arm_where_of_bool.py). "
            "Workaround: `torch.where(x <= 0, y, (x > 1).float())`.",
            link=_ARM + "_passes/match_arg_dtype_pass.py",
            stage=stage,
            error=error,
            outcome=outcome,
        )
        for target, case, stage, error, outcome in (
            (
                "tosa:fp|tosa:int16",
                "where/bool_and_fp32",
                "run",
                " bytes bool(3, 5) for a planned tensor",
                Status.FAILED,
            ),
            ("tosa:int", "where/bool_and_fp32", "compare", "exceed the bound", Status.MISMATCH),
            ("tosa:int*", "where/fp32_and_bool", "compare", "exceed the bound", Status.MISMATCH),
        )
    ),
    # Windows and dimensions.
    Limitation(
        target="tosa:*",
        case="max_pool2d_with_indices/ceil_mode_gap",
        reason="adjust_pooling_pad_if_needed computes a padding of -1 where the stride skips the "
        "last elements, and TOSA's MAX_POOL2D has no negative padding. Workaround: without "
        "`ceil_mode`, which makes no difference there.",
        link=_ARM + "operators/operator_validation_utils.py",
        stage="run",
        error="Invalid TOSA graph",
    ),
    *(
        Limitation(
            target=target,
            case="var/one_element|var/empty_dims",
            reason="DecomposeVarPass divides by the number of elements less the correction, which "
            "is 0 for one element, where ATen returns NaN; an empty list of dimensions, which "
            "stands for all, counts as one element. Workaround: name the dimensions.",
            link=_ARM + "_passes/decompose_var_pass.py",
            stage=stage,
            error="ZeroDivisionError",
        )
        for target, stage in (("tosa:fp", "lower"), ("tosa:int|tosa:int16", "quantize"))
    ),
]
