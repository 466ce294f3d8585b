"""Limitations of the integer suite: Arm's TOSA backend."""

from __future__ import annotations

from harness import Limitation, Status

_ARM = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/"
_TRANSFORMS = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/transforms/"

ARM: list[Limitation] = [
    Limitation(
        target="tosa:int",
        case="int_shared/relu_then_cat",
        since="1.5.0",
        reason="FuseQuantizedActivationPass removes a relu behind a layer, and writes the zero "
        "point as smallest code into the quantization behind it, which no TOSA operator applies: "
        "negative results stay where the zero point is not the smallest code of int8, as in front "
        "of a cat (docs/findings/tosa_relu_into_cat.py). Workaround: `torch.relu(y + 0.0)`.",
        link=_ARM + "_passes/fuse_quantized_activation_pass.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:int",
        case="int_shared/equal_operators",
        reason="FuseDuplicateUsersPass merges operators of equal arguments, whatever the "
        "quantization of their results: readers of the second take codes of the first for their "
        "own (docs/findings/arm_merged_quantization.py). Workaround: compute the value once.",
        link=_TRANSFORMS + "fuse_duplicate_users_pass.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    *(
        Limitation(
            target="tosa:int",
            case=case,
            reason="NormalizeDelegateIOLayoutPass permutes a result to the layout that it had "
            "before lowering, that of a transposed parameter. Passes of to_executorch compute it "
            "again, and the program declares a contiguous result "
            "(docs/findings/arm_transposed_parameter.py). Workaround: `x + self.shift.T`.",
            link=_ARM + "_passes/normalize_delegate_io_layout_pass.py",
            stage=stage,
            error=error,
            outcome=outcome,
        )
        for case, stage, error, outcome in (
            (
                "int_moved/transpose_of_parameter_added|int_moved/permute_of_parameter_added"
                "|int_moved/matrix_transpose_of_parameter_added",
                "compare",
                "elements exceed the bound",
                Status.MISMATCH,
            ),
            (
                "int_moved/rows_of_parameter_added",
                "run",
                "12 bytes int8(3, 4) for a planned tensor of 12 bytes torch.int8(4, 3)",
                Status.FAILED,
            ),
        )
    ),
    Limitation(
        target="tosa:int",
        case="int_stack/of_parameter_last",
        reason="A stack in the last dimension becomes unsqueezes and a cat after the quantizer "
        "ran. FuseConstantArgsPass computes the unsqueeze of a parameter, and stores it in "
        "float32 (docs/findings/arm_stack_of_parameter.py). Workaround: "
        "`torch.cat([self.first[..., None], x[..., None]], -1)`.",
        link=_ARM + "_passes/fuse_constant_ops_pass.py",
        stage="lower",
        error="fused_const', dtype=FP32",
    ),
    Limitation(
        target="tosa:int",
        case="int_in_place/set_part_of_copy",
        reason="torchao's ConstantFolder, which Arm's ConstantFoldingPass calls for the whole "
        "graph, takes the copy of a parameter for constant although a view of it is written to "
        "(docs/findings/torchao_folds_written_copy.py). Workaround: "
        "`torch.cat([x, self.kept[:, 1:]], 1)`.",
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/quantization/pt2e/"
        "constant_fold.py",
        stage="quantize",
        error="rewriting changed the module",
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
        target="tosa:int",
        case="int_in_place/hardsigmoid",
        reason="Arm's quantizer does not know hardsigmoid_, so that it stays outside of the "
        "delegate, and the runtime has no kernel for hardsigmoid. Workaround: `inplace=False`.",
        link=_ARM + "quantizer/quantizer_support.py",
        stage="run",
        error="no kernel aten::hardsigmoid.out",
    ),
]  # fmt: skip
