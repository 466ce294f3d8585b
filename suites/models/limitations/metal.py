"""Limitations of Metal; ``suites/metal`` has small cases of most of them."""

from __future__ import annotations

from harness import Limitation

_BACKENDS = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/"
_OPS = f"{_BACKENDS}apple/metal/runtime/ops/"
_ISSUES = "https://github.com/pytorch/executorch/issues/"


def _lower(cases: str, reason: str, link: str, error: str) -> Limitation:
    return Limitation(
        target="metal:*", case=cases, reason=reason, link=link, stage="lower", error=error
    )


METAL: list[Limitation] = [
    Limitation(
        target="metal:int4",
        case="mamba/tiny",
        reason="A linear layer is given a transposed view or a slice: the Meta kernel of "
        "torchao::_linear_fp_act_4bit_weight (ops/mps/mps_op_lib.py) asserts that activations are "
        "contiguous, and UIntxWeightOnlyQuantizedLinear does not make them so.",
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/experimental/ops/mps/"
        "mps_op_lib.py",
        stage="export",
        error="AssertionError",
    ),
    Limitation(
        target="metal:int4",
        case="t5/tiny",
        reason="The model asks its linear layer for the dtype of its weight (wo.weight): "
        "UIntxWeightOnlyQuantizedLinear, which stands for the layer, has none by that name.",
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/experimental/quant_api.py",
        stage="export",
        error="'UIntxWeightOnlyQuantizedLinear' object has no attribute 'weight'",
    ),
    _lower(
        "deit/tiny|vit/tiny|dinov2/tiny|resnet/tiny|mobilenet_v2/tiny|efficientnet/tiny|sam2/tiny|"
        "vit/night|dinov2/night|efficientnet/night|"
        "parakeet/ctc|resnet/50|mobilenet_v2/1.0_224|efficientnet/b0|parakeet/0.6b_layer",
        "Inductor's layout optimization (GraphLowering.decide_layout_opt) gives most 2-D "
        "convolutions channels-last operands; aoti_torch_mps_convolution (op_convolution.mm) "
        "reads them as if they were contiguous: silently wrong.",
        f"{_ISSUES}22951",
        "convolution: input strides",
    ),
    _lower(
        "siglip/tiny|siglip/night|siglip/base_224",
        "head.attention: one probe asks, and Inductor leaves the stride of that dimension as it "
        "comes. aoti_torch_mps_bmm_out (op_bmm.mm) compares all strides with those of a "
        "contiguous tensor, those of dimensions of size 1 included.",
        f"{_OPS}op_bmm.mm",
        "are not exactly those of a contiguous tensor",
    ),
    _lower(
        "mobilebert/*",
        "The embeddings of a token and of those beside it are joined by a cat, whose parts are "
        "filled through views. aoti_torch__reinterpret_tensor (shims/memory.cpp) makes of a view "
        "that begins later a Metal buffer of its own, from what the memory holds while the GPU "
        "has yet to fill it.",
        f"{_ISSUES}22956",
        "into memory of this run",
    ),
    _lower(
        "tagger/tiny|mamba/130m_layer",
        "The states of the LSTM's directions, and of Mamba's steps, are joined by a cat, whose "
        "parts are filled through views with holes. aoti_torch__reinterpret_tensor "
        "(shims/memory.cpp) makes a dense copy of these, and the kernel writes to the copy, beside "
        "it where it goes by the strides.",
        f"{_ISSUES}22983",
        "index a dense copy of the view",
    ),
    _lower(
        "bert/batch_2",
        "The mask of the padding is one for all heads of a sentence: op_sdpa.mm finds a mask by "
        "its stride over heads and the number of the head among all batches, which finds neither "
        "this one nor any that is shared by heads or batches alone.",
        f"{_OPS}op_sdpa.mm",
        "is neither one mask for all nor one for each",
    ),
    _lower(
        "rf_detr/tiny",
        "topk_coords_logits.detach(): AotiPartitioner.ops_to_not_decompose (aoti_partitioner.py) "
        "keeps every operator, so that exir makes aten.detach_copy of a detach that would become "
        "an alias_copy. Inductor has no lowering for it, the runtime no kernel.",
        f"{_BACKENDS}aoti/aoti_partitioner.py",
        "aten::detach_copy",
    ),
    _lower(
        "rt_detr/night",
        "The position embedding of the hybrid encoder is computed in float64. AotiPartitioner "
        "(aoti_partitioner.py) takes every operator, whatever its dtype, and Inductor's Metal "
        "code (DTYPE_TO_METAL, torch/_inductor/codegen/mps.py) has no float64.",
        f"{_BACKENDS}aoti/aoti_partitioner.py",
        "KeyError: torch.float64",
    ),
    # The cause is in runtime.py: the program has the one length of its example.
    _lower(
        "qwen3_moe/dynamic",
        "EdgeOpArgValidator (exir/verification/arg_validator.py) runs the graph to look at dtypes: "
        "split_with_sizes_copy of a symbolic size asks the symbol for an int, and the length of "
        "the example becomes the only one. The generated assertion is what the release drops.",
        "https://github.com/pytorch/executorch/blob/v1.5.1/exir/verification/arg_validator.py",
        "assert_size_stride: tensor shape (1, 2) is not (1, 12)",
    ),
]
