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
